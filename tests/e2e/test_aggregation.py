# SPDX-License-Identifier: Apache-2.0
"""Tests of kubectl with an extension API server: discovered, called, removed."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bounds import GIVE_UP_SECONDS
from tests.e2e.conftest import MakePlane
from tests.e2e.kubectl import WAIT, Kubectl
from tests.e2e.plane import Plane, eventually
from tests.skips import skip_without_kubectl
from tests.unit.apiserver.aggregator.extension_server import GROUP, VERSION, Authority, Gardens, listening

NAME = f"{VERSION}.{GROUP}"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


@pytest.fixture
def behind(make_plane: MakePlane) -> Plane:
    """A control plane of the test's own."""
    one = make_plane()
    one.start()
    return one


@pytest.fixture
def extension(behind: Plane, tmp_path: Path) -> Iterator[tuple[int, Authority]]:
    """The port and authority of an extension API server that runs beside the test."""
    authority, ready, end = Authority(tmp_path), threading.Event(), asyncio.Event()
    ports: list[int] = []
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        serving = authority.serving("garden-api.default.svc")
        async with listening(Gardens(), serving, behind.folder / "data/pki/front-proxy-ca.crt") as server:
            ports.append(server.port)
            ready.set()
            await end.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(GIVE_UP_SECONDS)
    yield ports[0], authority
    loop.call_soon_threadsafe(end.set)
    thread.join(GIVE_UP_SECONDS)
    loop.close()


def test_kubectl_uses_an_extension_api_server(
    behind: Plane, extension: tuple[int, Authority], kubectl_home: Path
) -> None:
    skip_without_kubectl()
    kubectl, (port, authority) = Kubectl(behind.kubeconfig, "default", kubectl_home), extension
    service = {"type": "ExternalName", "externalName": "localhost"}
    behind.create("/api/v1/namespaces/default/services", {"metadata": {"name": "garden-api"}, "spec": service})
    spec = {"group": GROUP, "version": VERSION, "groupPriorityMinimum": 100, "versionPriority": 10}
    where = {"service": {"name": "garden-api", "namespace": "default", "port": port}}
    trust = {"caBundle": base64.b64encode(authority.pem).decode()}
    behind.create(API_SERVICES, {"metadata": {"name": NAME}, "spec": spec | where | trust})
    kubectl("wait", "--for=condition=Available", f"apiservice/{NAME}", WAIT)
    assert "gardens" in kubectl("api-resources", f"--api-group={GROUP}")
    assert kubectl("get", "gd", "eden", "-o", "name") == f"garden.{GROUP}/eden\n"
    kubectl("delete", "service", "garden-api")
    kubectl("wait", "--for=condition=Available=false", f"apiservice/{NAME}", WAIT)
    assert "gardens" in kubectl.fails("get", f"gardens.{GROUP}", "eden")
    assert behind.call("GET", f"/apis/{GROUP}/{VERSION}/gardens").status == 503
    assert kubectl("get", "namespace", "default", "-o", "name") == "namespace/default\n"
    kubectl("delete", "apiservice", NAME)
    eventually(lambda: GROUP not in kubectl("api-versions"))


def test_extension_api_servers_can_read_the_authentication_config_map(behind: Plane) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    data = behind.get(path)["data"]
    pki = behind.folder / "data/pki"
    assert data["requestheader-client-ca-file"] == (pki / "front-proxy-ca.crt").read_text()
    assert data["client-ca-file"] == (pki / "ca.crt").read_text()
    assert data["requestheader-allowed-names"] == '["front-proxy-client"]'
    assert data["requestheader-username-headers"] == '["X-Remote-User"]'
