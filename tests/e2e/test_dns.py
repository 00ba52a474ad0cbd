# SPDX-License-Identifier: Apache-2.0
"""`kubeloop dns` asked by dig, with the rights of CoreDNS's account at a real API server."""

from __future__ import annotations

import http.client
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.bounds import GIVE_UP_SECONDS
from tests.e2e.manager_process import free_port
from tests.e2e.plane import PROGRAM, Plane, environment, eventually
from tests.skips import NEEDS_TOOL

SERVICES = "/api/v1/namespaces/default/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
RULES = [
    {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
]
SVC = "default.svc.cluster.local"


class DnsProcess:
    """The program as a child process."""

    def __init__(self, kubeconfig: Path, folder: Path, *flags: str) -> None:
        self.kubeconfig = kubeconfig
        self.folder = folder
        self.flags = flags
        self.port, self.health, self.ready, self.metrics = (free_port() for _ in range(4))
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        arguments = [*PROGRAM, "dns", "--kubeconfig", str(self.kubeconfig), "--bind-address", "127.0.0.1"]
        arguments += ["--port", str(self.port), "--health-port", str(self.health), "--ready-port", str(self.ready)]
        arguments += ["--metrics-port", str(self.metrics), "--resolv-conf", "", "--lameduck", "0s", *self.flags]
        with (self.folder / "stderr").open("ab") as errors:
            self.process = subprocess.Popen(arguments, stdout=errors, stderr=errors, env=environment())

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(GIVE_UP_SECONDS)
        finally:
            self.close()

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def output(self) -> str:
        return (self.folder / "stderr").read_text(errors="replace")

    def get(self, port: int, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=GIVE_UP_SECONDS)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def wait_ready(self) -> None:
        eventually(lambda: self.get(self.ready, "/ready") == (200, "OK"))

    def dig(self, *arguments: str) -> str:
        """Return what dig prints; the server must answer at the first try."""
        command = ["dig", "@127.0.0.1", "-p", str(self.port), "+tries=1", f"+time={int(GIVE_UP_SECONDS)}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIVE_UP_SECONDS + 5)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def short(self, *arguments: str) -> list[str]:
        return sorted(self.dig("+short", *arguments).split("\n"))[1:]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    if shutil.which("dig") is None:
        pytest.skip(f"{NEEDS_TOOL}dig")
    one = Plane(tmp_path_factory.mktemp("dns-plane"), "--ephemeral")
    one.start()
    yield one
    one.close()


@pytest.fixture(scope="module")
def coredns_kubeconfig(server: Plane) -> Path:
    """A kubeconfig of the account coredns, which has kubeadm's role system:coredns and no other right."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
    server.create(accounts, {"metadata": {"name": "coredns"}})
    server.create(f"{rbac}/clusterroles", {"metadata": {"name": "system:coredns"}, "rules": RULES})
    subject = {"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"}
    server.create(
        f"{rbac}/clusterrolebindings", {"metadata": {"name": "system:coredns"}, "roleRef": role, "subjects": [subject]}
    )
    token = server.create(f"{accounts}/coredns/token", {"spec": {}})["status"]["token"]
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = server.folder / "coredns.conf"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def start_dns(coredns_kubeconfig: Path, tmp_path: Path) -> Iterator[Callable[..., DnsProcess]]:
    started: list[DnsProcess] = []

    def start(*flags: str) -> DnsProcess:
        one = DnsProcess(coredns_kubeconfig, tmp_path / f"dns-{len(started)}", *flags)
        started.append(one)
        one.start()
        return one

    yield start
    for one in started:
        one.close()


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"name": "http", "port": 80}], **spec}}


def endpoint_slice(owner: str, *addresses: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{owner}-1", "labels": {"kubernetes.io/service-name": owner}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [one], "conditions": {"ready": True}} for one in addresses],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }


def test_dig_finds_services(server: Plane, start_dns: Callable[..., DnsProcess]) -> None:
    many = [f"10.1.{number // 200}.{number % 200 + 1}" for number in range(100)]
    created = server.create(SERVICES, service("web"))
    server.create(SERVICES, service("heads", clusterIP="None"))
    server.create(SLICES, endpoint_slice("heads", *many))
    dns = start_dns("--log-queries")
    dns.wait_ready()
    address = created["spec"]["clusterIP"]
    assert dns.short(f"web.{SVC}") == [address]
    assert dns.short("-x", address) == [f"web.{SVC}."]
    assert dns.short("SRV", f"_http._tcp.web.{SVC}") == [f"0 100 80 web.{SVC}."]
    assert dns.short("TXT", "dns-version.cluster.local") == ['"1.1.0"']
    assert dns.short("10-1-0-7.heads.default.svc.cluster.local") == ["10.1.0.7"]
    assert dns.short("10-9-9-9.default.pod.cluster.local") == ["10.9.9.9"]
    assert "status: NXDOMAIN" in dns.dig(f"nothing.{SVC}")
    assert "status: NOERROR" in dns.dig("AAAA", f"web.{SVC}")
    assert "status: REFUSED" in dns.dig("example.com")
    assert "status: BADVERS" in dns.dig("+edns=1", "+noednsnegotiation", f"web.{SVC}")
    assert "udp: 1232" in dns.dig(f"web.{SVC}")
    assert "flags: qr aa tc rd" in dns.dig("+noedns", "+ignore", f"heads.{SVC}")
    assert len(dns.short("+noedns", f"heads.{SVC}")) == 100  # dig retries over TCP
    assert dns.short("+tcp", f"WEB.{SVC}") == [address]
    assert dns.get(dns.health, "/health") == (200, "OK")
    status, metrics = dns.get(dns.metrics, "/metrics")
    assert status == 200
    assert 'coredns_dns_requests_total{family="1",proto="udp"' in metrics
    assert f'"web.{SVC}. IN A udp" NOERROR' in dns.output()
    assert dns.stop() == 0


def test_changes_of_the_cluster_show(server: Plane, start_dns: Callable[..., DnsProcess]) -> None:
    dns = start_dns()
    dns.wait_ready()
    name = f"moving.{SVC}"
    assert "status: NXDOMAIN" in dns.dig(name)
    created = server.create(SERVICES, service("moving"))
    eventually(lambda: dns.short(name) == [created["spec"]["clusterIP"]])
    answer = server.call("DELETE", f"{SERVICES}/moving")
    assert answer.status == 200
    eventually(lambda: "status: NXDOMAIN" in dns.dig(name))
    server.create(SERVICES, {"metadata": {"name": "moving"}, "spec": {"type": "ExternalName", "externalName": "a.b"}})
    eventually(lambda: dns.short("CNAME", name) == ["a.b."])
    patch = {"spec": {"externalName": "c.d"}}
    server.call("PATCH", f"{SERVICES}/moving", patch, Content_Type="application/merge-patch+json")
    eventually(lambda: dns.short("CNAME", name) == ["c.d."])


def test_names_outside_are_forwarded(start_dns: Callable[..., DnsProcess]) -> None:
    """The upstream is another server of ours, for another domain."""
    upstream = start_dns("--cluster-domain", "other.test")
    upstream.wait_ready()
    dns = start_dns("--upstream", f"127.0.0.1:{upstream.port}")
    dns.wait_ready()
    assert dns.short("TXT", "dns-version.other.test") == ['"1.1.0"']
    assert dns.short("TXT", "dns-version.other.test") == ['"1.1.0"']
    assert "status: NXDOMAIN" in dns.dig("nothing.other.test")
    assert "status: REFUSED" in dns.dig("example.com")
    _, metrics = dns.get(dns.metrics, "/metrics")
    assert 'coredns_cache_hits_total{server="dns://:' in metrics
    assert upstream.stop() == 0
    assert "status: SERVFAIL" in dns.dig("x.y.other.test")


def test_server_is_not_ready_without_the_api_server(server: Plane, tmp_path: Path) -> None:
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{free_port()}"
    path = tmp_path / "nobody.conf"
    path.write_text(yaml.safe_dump(config))
    dns = DnsProcess(path, tmp_path / "dns")
    dns.start()
    try:
        eventually(lambda: dns.get(dns.ready, "/ready")[0] == 503)
        assert dns.get(dns.ready, "/ready") == (503, "namespaces,services,endpointslices")
        assert "status: SERVFAIL" in dns.dig(f"kubernetes.{SVC}")
        assert dns.stop() == 0
    finally:
        dns.close()


def test_unusable_settings_are_reported_in_one_line(coredns_kubeconfig: Path, tmp_path: Path) -> None:
    dns = DnsProcess(coredns_kubeconfig, tmp_path / "dns")
    dns.flags = ("--upstream", f"127.0.0.1:{dns.port}")
    dns.start()
    assert dns.process is not None
    assert dns.process.wait(GIVE_UP_SECONDS) == 1
    assert dns.output() == f"kubeloop: the upstream 127.0.0.1:{dns.port} is this server: queries would loop\n"
