# SPDX-License-Identifier: Apache-2.0
"""Tests of the network of `kubeloop up --runtime`: pod network, Services, DNS and policies, by real connections."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bounds import GIVE_UP_SECONDS
from tests.realnode.containerd import Containerd, run_containerd
from tests.realnode.network_probe import in_namespace
from tests.realnode.node import RealNode
from tests.realnode.test_pods import container, pod
from tests.realnode.test_up import NAME, ON_HOST, up

pytestmark = pytest.mark.realnode
ADDRESS = "192.168.77.1"
STRANGER = "203.0.113.9"
DNS_QUERY = bytes.fromhex("1234 0100 0001 0000 0000 0000") + b"\12kubernetes\7default\3svc\7cluster\5local\0\0\1\0\1"
SECONDS = 5.0
# Limits of connection tracking belong to the machine, not to a namespace.
PROXY = ("conntrack-max-per-core=0", "conntrack-tcp-timeout-established=0s", "conntrack-tcp-timeout-close-wait=0s")
# A static busybox cannot resolve names: clients run the machine's curl, with its libraries.
LIBRARIES = {"usr": "/usr", "lib": "/usr/lib", "lib64": "/usr/lib64"}
HTTPD = "mkdir -p /w; hostname > /w/name; echo > /w/index.html; exec httpd -f -p 8080 -h /w"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory, archives: list[Path]) -> Iterator[Containerd]:
    """A containerd without a CNI configuration, on a machine whose default route leads nowhere."""
    with run_containerd(tmp_path_factory.mktemp("net") / "n", archives, "") as found:
        add_default_route(found)
        yield found


@pytest.fixture(scope="module")
def cluster(runtime: Containerd) -> Iterator[RealNode]:
    """A cluster with one real node beside two simulated ones."""
    with started(runtime, "cluster", "--nodes", "2") as node:
        node.apply(*application())
        for name in ("client", "echo"):
            node.wait_ready(name)
        node.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        yield node


def add_default_route(runtime: Containerd) -> None:
    for command in (
        "link add out type veth peer name nowhere",
        f"address add {ADDRESS}/24 dev out",
        "link set nowhere up",
        "link set out up",
        "route add default via 192.168.77.254",
    ):
        runtime.run("ip", *command.split())


@contextmanager
def started(runtime: Containerd, folder: str, *flags: str) -> Iterator[RealNode]:
    """Run a cluster in the background; its data are in a folder of the runtime's."""
    place = runtime.folder / folder
    place.mkdir()
    (place / "kubelet.log").touch()  # the kubelet writes to the log of the cluster
    node = RealNode(runtime, place)
    try:
        done = up_with_network(node, *flags)
        assert done.returncode == 0, done.stderr
        node.eventually(lambda: is_ready(node), lambda: log_of(node))
        yield node
    finally:
        node.run_program("delete", "c")


def up_with_network(node: RealNode, *flags: str) -> subprocess.CompletedProcess[str]:
    arguments = (one for flag in PROXY for one in ("--proxy-arg", flag))
    return up(node, "--runtime", node.runtime.endpoint, *arguments, *flags)


def is_ready(node: RealNode) -> bool:
    path = "{.status.conditions[?(@.type=='Ready')].status}"
    return node.kubectl("get", "node", NAME, "-o", f"jsonpath={path}") == "True"


def log_of(node: RealNode) -> str:
    return (node.folder / "state/kubeloop/run/c.log").read_text()[-4000:]


def application() -> list[dict[str, Any]]:
    """Two web servers with their Services, an echo server, and a client."""
    mounts = [{"name": name, "mountPath": f"/{name}", "readOnly": True} for name in LIBRARIES]
    volumes = [{"name": name, "hostPath": {"path": path}} for name, path in LIBRARIES.items()]
    return [
        deployment(2),
        service("web", type="NodePort"),
        service("web-headless", clusterIP="None"),
        service("echo", 9000),
        pod("echo", container("c", "exec nc -ll -p 9000 -e cat", **ready_at(9000)), **ON_HOST),
        pod("client", container("c", "exec sleep 10000", volumeMounts=mounts), volumes=volumes, **ON_HOST),
    ]


def deployment(replicas: int) -> dict[str, Any]:
    made = pod("web", container("c", HTTPD, **ready_at(8080)), **ON_HOST)
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": made["spec"]},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def ready_at(port: int) -> dict[str, Any]:
    return {"readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1}}


def service(name: str, port: int = 80, **spec: Any) -> dict[str, Any]:
    target = 8080 if port == 80 else port
    ports = [{"port": port, "targetPort": target}]
    chosen = {"selector": {"app": name.partition("-")[0]}, "ports": ports, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": chosen}


def curl(node: RealNode, *arguments: str) -> str:
    """Run curl in the client pod; returns its output, empty if there was no answer."""
    command = ("curl", "-sS", "--max-time", str(SECONDS), *arguments)
    return node.kubectl("exec", "client", "--", *command, check=False)


def web_addresses(node: RealNode) -> list[str]:
    return node.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}").split()


def web_names(node: RealNode) -> set[str]:
    return set(node.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.name}").split())


def test_service_is_reached_by_its_name(cluster: RealNode) -> None:
    names = web_names(cluster)
    assert len(names) == 2
    for url in ("http://web.default.svc.cluster.local/name", "http://web/name"):
        answered: set[str] = set()

        def both(url: str = url, answered: set[str] = answered) -> bool:
            answered.add(curl(cluster, url).strip())
            return names <= answered

        cluster.eventually(both, lambda answered=answered: f"{answered} of {names}\n{log_of(cluster)}")  # type: ignore[misc]


def test_pods_have_addresses_of_the_node(cluster: RealNode) -> None:
    cidr = cluster.kubectl("get", "node", NAME, "-o", "jsonpath={.spec.podCIDR}")
    assert cidr.startswith("10.244.")
    assert all(one.startswith(cidr.removesuffix("0/24")) for one in web_addresses(cluster))


def test_node_port_is_reached_from_the_host(cluster: RealNode) -> None:
    port = cluster.kubectl("get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}")
    assert cluster.runtime.run("curl", "-sS", "--max-time", "5", f"http://{ADDRESS}:{port}/name").strip() in web_names(
        cluster
    )


def test_headless_service_has_the_addresses_of_its_pods(cluster: RealNode) -> None:
    shown = cluster.kubectl("exec", "client", "--", "nslookup", "web-headless.default.svc.cluster.local")
    found = [line.split()[-1] for line in shown.partition("\n\n")[2].splitlines() if line.startswith("Address")]
    assert sorted(found) == sorted(web_addresses(cluster))
    assert curl(cluster, "http://web-headless:8080/name").strip() in web_names(cluster)


def test_resolv_conf_names_the_service_of_dns(cluster: RealNode) -> None:
    lines = cluster.kubectl("exec", "client", "--", "cat", "/etc/resolv.conf").splitlines()
    assert lines[1:] == ["nameserver 10.96.0.10", "options ndots:5"]
    assert lines[0].startswith("search default.svc.cluster.local svc.cluster.local cluster.local")
    address = "jsonpath={.spec.clusterIP}"
    assert cluster.kubectl("get", "service", "kube-dns", "-n", "kube-system", "-o", address) == "10.96.0.10"


def dns_code(node: RealNode, source: str) -> int:
    """Return the response code to a query from an address of the host."""

    def ask() -> int:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(GIVE_UP_SECONDS)
            client.bind((source, 0))
            client.sendto(DNS_QUERY, (ADDRESS, 53))
            return client.recv(512)[3] & 0xF

    return in_namespace(node.runtime.namespace, ask)


def test_dns_answers_nodes_and_refuses_strangers(cluster: RealNode) -> None:
    cluster.runtime.run("ip", "address", "add", f"{STRANGER}/32", "dev", "lo")
    cluster.eventually(lambda: dns_code(cluster, ADDRESS) == 0, lambda: log_of(cluster))
    assert dns_code(cluster, STRANGER) == 5  # REFUSED


def test_api_is_reached_with_the_token_of_a_pod(cluster: RealNode) -> None:
    script = (
        f'curl -sS --max-time 5 --cacert {TOKEN}/ca.crt -H "Authorization: Bearer $(cat {TOKEN}/token)" '
        "https://kubernetes.default.svc/apis/authentication.k8s.io/v1/selfsubjectreviews "
        "-H 'Content-Type: application/json' "
        """-d '{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}'"""
    )
    answer = json.loads(cluster.kubectl("exec", "client", "--", "sh", "-c", script))
    assert answer["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"


def test_policy_denies(cluster: RealNode) -> None:
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "deny"}}
    policy |= {"spec": {"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"]}}
    url = f"http://{web_addresses(cluster)[0]}:8080/name"
    assert curl(cluster, url).strip() in web_names(cluster)
    cluster.apply(policy)
    cluster.eventually(lambda: "(28)" in curl(cluster, "--connect-timeout", "1", url), lambda: log_of(cluster))
    cluster.kubectl("delete", "networkpolicy", "deny")
    cluster.eventually(lambda: curl(cluster, url).strip() in web_names(cluster), lambda: log_of(cluster))


def test_simulated_pods_have_other_addresses_and_refuse_packets(cluster: RealNode) -> None:
    spec = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}
    cluster.apply(pod("pretended", container("c", "sleep 1000"), **spec))
    address = cluster.wait_ready("pretended")["status"]["podIP"]
    rows = cluster.kubectl(
        "get", "nodes", "-o", "jsonpath={range .items[*]}{.metadata.name} {.spec.podCIDR}{'\\n'}{end}"
    )
    cidrs = dict(line.split() for line in rows.splitlines())
    assert len(set(cidrs.values())) == 3
    assert address.startswith(cidrs["n1"].removesuffix("0/24"))
    refusal = curl(cluster, f"http://{address}/")
    assert "curl: (7)" in refusal  # the node rejects it: nothing leaves the machine
    cluster.kubectl("delete", "pod", "pretended")


def test_status_shows_the_network(cluster: RealNode) -> None:
    [shown] = json.loads(cluster.run_program("status", "c", "-o", "json").stdout)["clusters"]
    found = {one["name"]: (one["port"], one["healthy"]) for one in shown["components"]}
    assert found["dns"] == (53, True)
    assert found["service-proxy"] == (10256, True)
    assert found["pod-network"] == (10261, True)
    table = cluster.run_program("status", "c").stdout
    assert [line.split()[2] for line in table.splitlines() if line.split()[:1] == ["dns"]] == ["Healthy"]


def test_restart_keeps_connections_and_addresses(cluster: RealNode) -> None:
    before = web_addresses(cluster)
    address = cluster.kubectl("get", "service", "echo", "-o", "jsonpath={.spec.clusterIP}")
    namespace = cluster.runtime.namespace
    connection = in_namespace(namespace, lambda: socket.create_connection((address, 9000), SECONDS))
    with connection, connection.makefile("rwb") as stream:

        def echo(line: bytes) -> bytes:
            stream.write(line)
            stream.flush()
            return stream.readline()

        assert echo(b"before\n") == b"before\n"
        assert cluster.run_program("stop", "c").returncode == 0
        assert echo(b"stopped\n") == b"stopped\n"
        in_namespace(namespace, lambda: socket.create_connection((address, 9000), SECONDS)).close()
        again = up_with_network(cluster, "--nodes", "2")
        assert again.returncode == 0, again.stderr
        cluster.eventually(lambda: is_ready(cluster), lambda: log_of(cluster))
        assert echo(b"after\n") == b"after\n"
    assert web_addresses(cluster) == before
    cluster.eventually(lambda: curl(cluster, "http://web/name").strip() in web_names(cluster), lambda: log_of(cluster))
    cluster.apply(deployment(3))
    cluster.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    after = web_addresses(cluster)
    assert len(set(after)) == 3
    assert set(before) < set(after)


@pytest.fixture
def own_runtime(tmp_path_factory: pytest.TempPathFactory, archives: list[Path]) -> Iterator[Containerd]:
    with run_containerd(tmp_path_factory.mktemp("own") / "e", archives, "") as found:
        add_default_route(found)
        yield found


def network_of(runtime: Containerd) -> list[str]:
    """Return everything of the namespace's network, and the files of its pods."""
    commands = ("ip -o link", "ip -o address", "ip route", "ip -6 route", "nft list tables")
    shown = [line.partition(" valid_lft")[0] for one in commands for line in runtime.run(*one.split()).splitlines()]
    files = [str(one) for folder in ("cni", "cni-bin") for one in (runtime.folder / folder).iterdir()]
    return sorted([*shown, *files])


def socket_folder(runtime: Containerd) -> Path:
    """Return the folder of the socket that the CNI configuration names."""
    config = json.loads((runtime.folder / "cni" / "10-kubeloop.conflist").read_text())
    return Path(config["plugins"][-1]["socket"]).parent


def test_ephemeral_cluster_leaves_nothing(own_runtime: Containerd) -> None:
    own_runtime.run("sysctl", "-q", "net.ipv6.conf.all.disable_ipv6=1")  # its addresses come and go by themselves
    before = network_of(own_runtime)
    with started(own_runtime, "node", "--ephemeral") as node:
        node.apply(pod("web", container("c", HTTPD)))
        node.wait_ready("web")
        folder = socket_folder(own_runtime)
        assert folder.exists()
        assert network_of(own_runtime) != before
        assert node.run_program("stop", "c").returncode == 0
        assert own_runtime.list_containers() == []
        assert network_of(own_runtime) == before
        assert not folder.exists()


def test_delete_removes_the_network(own_runtime: Containerd) -> None:
    own_runtime.run("sysctl", "-q", "net.ipv6.conf.all.disable_ipv6=1")
    before = network_of(own_runtime)
    with started(own_runtime, "node") as node:
        node.apply(pod("web", container("c", HTTPD)))
        node.wait_ready("web")
        assert node.run_program("stop", "c").returncode == 0
        folder = socket_folder(own_runtime)
        assert folder.exists()
        assert node.run_program("delete", "c").returncode == 0
        assert network_of(own_runtime) == before
        assert not folder.exists()


def test_dns_works_beside_another_server(own_runtime: Containerd) -> None:
    other = in_namespace(own_runtime.namespace, lambda: socket.create_server((ADDRESS, 53)))
    with other, started(own_runtime, "node", "--ephemeral") as node:
        node.apply(pod("client", container("c", "exec sleep 10000")))
        node.wait_ready("client")
        path = "jsonpath={.ports[?(@.name=='dns')].port}"
        assert node.kubectl("get", "endpointslice", "kube-dns-ipv4", "-n", "kube-system", "-o", path) != "53"
        look = ("exec", "client", "--", "nslookup", "kubernetes.default.svc.cluster.local")
        node.eventually(lambda: "10.96.0.1\n" in node.kubectl(*look, check=False), lambda: log_of(node))
        shown = json.loads(node.run_program("status", "c", "-o", "json").stdout)["clusters"][0]["components"]
        assert [one["port"] != 53 and one["healthy"] for one in shown if one["name"] == "dns"] == [True]


def test_older_cluster_names_its_cluster_ips(own_runtime: Containerd) -> None:
    folder = own_runtime.folder / "node"
    folder.mkdir()
    node = RealNode(own_runtime, folder)
    plain = ("--name", "c", "--detach", "--port", "0", "--controller-manager-port", "0", "--scheduler-port", "0")
    assert node.run_program("up", *plain).returncode == 0
    assert node.run_program("stop", "c").returncode == 0
    refused = up_with_network(node)
    assert refused.returncode != 0
    assert "start it with --service-cluster-ip-range=10.0.0.0/24" in refused.stderr
    again = up_with_network(node, "--service-cluster-ip-range", "10.0.0.0/24")
    assert again.returncode == 0, again.stderr
    address = "jsonpath={.spec.clusterIP}"
    ask = ("get", "service", "kube-dns", "-n", "kube-system", "-o", address)
    node.eventually(lambda: node.kubectl(*ask, check=False) == "10.0.0.10", lambda: log_of(node))
    assert node.run_program("delete", "c").returncode == 0


def test_network_of_another_program_is_left_alone(own_runtime: Containerd) -> None:
    folder = own_runtime.folder / "node"
    folder.mkdir()
    node = RealNode(own_runtime, folder)
    foreign = own_runtime.folder / "cni" / "87-podman.conflist"
    foreign.write_text("{}")
    refused = up_with_network(node, "--ephemeral")
    assert refused.returncode != 0
    assert "cni has the CNI configuration of another program (87-podman.conflist)" in refused.stderr
    assert "--node-network=none leaves the network of this host as it is" in refused.stderr
    foreign.unlink()
    (own_runtime.folder / "cni-bin" / "ptp").unlink()
    refused = up_with_network(node, "--ephemeral")
    assert "cni-bin has no CNI plugin ptp: install the standard plugins" in refused.stderr
    own_runtime.run("ip", "route", "delete", "default")
    refused = up_with_network(node, "--ephemeral")
    assert "pods cannot reach this machine: it has no default route" in refused.stderr
    assert own_runtime.run("nft", "list", "tables") == ""
