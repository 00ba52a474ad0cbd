# SPDX-License-Identifier: Apache-2.0
"""A Service of type LoadBalancer gets an address that answers, from the real program."""

from __future__ import annotations

import http.client
import http.server
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bounds import GIVE_UP_SECONDS
from tests.e2e.kubectl import WAIT, Kubectl
from tests.e2e.plane import PROGRAM, Plane, environment, eventually
from tests.skips import NEEDS_LINUX, needs_kubectl

SERVICES = "/api/v1/namespaces/default/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
FINALIZER = "service.kubernetes.io/load-balancer-cleanup"

# Elsewhere only 127.0.0.1 is a loopback address.
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason=NEEDS_LINUX)


class _HelloHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"hello from the endpoint"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture
def backend() -> Iterator[int]:
    """The port of a server that stands for a pod."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _HelloHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def service(port: int, **spec: Any) -> dict[str, Any]:
    spec = {"type": "LoadBalancer", "ports": [{"port": port, "protocol": "TCP"}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}


def endpoints(port: int) -> dict[str, Any]:
    """The API takes no loopback addresses for endpoints; names under localhost are this machine's."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "FQDN",
        "ports": [{"port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["web.localhost"], "conditions": {"ready": True}}],
    }


def address_of(plane: Plane) -> str:
    def look() -> str:
        ingress = plane.get(f"{SERVICES}/web")["status"]["loadBalancer"].get("ingress", [{}])
        return str(ingress[0].get("ip", ""))

    return eventually(look)


def ask(address: str, port: int) -> bytes:
    connection = http.client.HTTPConnection(address, port, timeout=GIVE_UP_SECONDS)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read()
    finally:
        connection.close()


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Plane]:
    flags = ("--ephemeral", "--controller-manager-port", "0", "--cloud-provider", "local")
    plane = Plane(tmp_path / "plane", *flags)
    plane.start()
    yield plane
    plane.close()


@needs_kubectl()
def test_service_gets_a_reachable_address(up: Plane, backend: int, kubectl_home: Path) -> None:
    port, kubectl = free_port(), Kubectl(up.kubeconfig, "default", kubectl_home)
    kubectl.apply(service(port), endpoints(backend))
    kubectl("wait", "service/web", "--for=jsonpath={.status.loadBalancer.ingress}", WAIT)
    _, kind, _, address, ports, _ = kubectl("get", "service", "web", "--no-headers").split()
    assert (kind, ports.partition(":")[0]) == ("LoadBalancer", str(port))
    assert address.startswith("127.10.")
    assert eventually(lambda: ask(address, port)) == b"hello from the endpoint"
    assert "EnsuredLoadBalancer" in kubectl("describe", "service", "web")


def test_address_is_unreachable_after_service_deletion(up: Plane, backend: int) -> None:
    port = free_port()
    up.create(SERVICES, service(port))
    up.create(SLICES, endpoints(backend))
    address = address_of(up)
    eventually(lambda: ask(address, port))
    assert FINALIZER in up.get(f"{SERVICES}/web")["metadata"]["finalizers"]
    up.call("DELETE", f"{SERVICES}/web")
    eventually(lambda: up.call("GET", f"{SERVICES}/web").status == 404)
    with pytest.raises(ConnectionRefusedError):
        ask(address, port)


def test_source_ranges_block_other_clients(up: Plane, backend: int) -> None:
    port = free_port()
    up.create(SERVICES, service(port, loadBalancerSourceRanges=["192.0.2.0/24"]))
    up.create(SLICES, endpoints(backend))
    address = address_of(up)
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        ask(address, port)


def test_no_addresses_are_assigned_without_the_flag(tmp_path: Path) -> None:
    plane = Plane(tmp_path / "plane", "--ephemeral", "--controller-manager-port", "0")
    plane.start()
    try:
        plane.create(SERVICES, service(free_port()))
        assert plane.get(f"{SERVICES}/web")["status"]["loadBalancer"] == {}
        assert plane.get(f"{SERVICES}/web")["metadata"].get("finalizers", []) == []
    finally:
        plane.close()


def test_unknown_provider_is_reported_in_one_line(tmp_path: Path) -> None:
    plane = Plane(tmp_path / "plane", "--ephemeral", "--controller-manager-port", "0", "--cloud-provider", "nimbus")
    with pytest.raises(AssertionError, match='unknown cloud provider "nimbus"'):
        plane.start()


def test_cloud_controller_manager_works_over_http_with_its_roles(tmp_path: Path, backend: int) -> None:
    plane = Plane(tmp_path / "plane", "--ephemeral", "--controller-manager-port", "0")
    plane.start()
    flags = ("--cloud-provider=local", "--secure-port=0", "--configure-cloud-routes=false")
    with (tmp_path / "manager").open("wb") as said:
        manager = subprocess.Popen(
            [
                *PROGRAM, "cloud-controller-manager", *flags, f"--kubeconfig={plane.kubeconfig}",
                "--use-service-account-credentials",
            ],
            env=environment(), stdout=said, stderr=said,
        )  # fmt: skip
    try:
        port = free_port()
        plane.create(SERVICES, service(port))
        plane.create(SLICES, endpoints(backend))
        address = address_of(plane)
        assert eventually(lambda: ask(address, port)) == b"hello from the endpoint"
        lease = plane.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager")
        assert lease["spec"]["holderIdentity"]
    finally:
        manager.terminate()
        assert manager.wait(GIVE_UP_SECONDS) == 0
        plane.close()
