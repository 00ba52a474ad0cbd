# SPDX-License-Identifier: Apache-2.0
"""The service proxy in a real kernel: connections to every kind of Service, from a client, the node and pods."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.realnode.proxy_network import (
    CLIENT_IP,
    GATEWAYS,
    NODE,
    NODE_IP,
    POD_IPS,
    ProxyNetwork,
)
from tests.skips import NEEDS_LINUX, NEEDS_ROOT, NEEDS_TOOL, skip_without_kubectl

pytestmark = pytest.mark.realnode


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyNetwork]:
    if sys.platform != "linux":
        pytest.skip(NEEDS_LINUX)
    if os.geteuid() != 0:
        pytest.skip(NEEDS_ROOT)
    for tool in ("nft", "ip"):
        if shutil.which(tool) is None:
            pytest.skip(f"{NEEDS_TOOL}{tool}")
    skip_without_kubectl()
    found = ProxyNetwork(tmp_path_factory.mktemp("proxy") / "p")
    found.folder.mkdir()
    with found.run():
        found.start_proxy()
        found.eventually(found.list_table)
        yield found


def test_cluster_ip_reaches_all_endpoints_and_masquerades_traffic_from_outside(network: ProxyNetwork) -> None:
    address = "10.96.1.1"
    network.apply(network.service("cluster", address), network.endpoints("cluster", "pod1", "pod2", local=("pod1",)))
    network.wait_answer("pod", "client", address)
    assert network.answering("client", address) == {"pod1", "pod2"}
    assert network.answering("node", address) == {"pod1", "pod2"}
    answers = network.answers("client", address)
    assert answers == {f"{pod} {gateway}" for pod, gateway in GATEWAYS.items()}  # the node's address, not the client's
    # A pod keeps its address towards the other pod; a connection to itself comes from the node.
    from_pod = network.answers("pod1", address)
    assert from_pod == {f"pod2 {POD_IPS['pod1']}", f"pod1 {GATEWAYS['pod1']}"}


def test_other_ports_of_a_cluster_ip_are_refused_and_unallocated_addresses_time_out(network: ProxyNetwork) -> None:
    network.apply(network.service("ports", "10.96.1.2"), network.endpoints("ports", "pod1"))
    network.wait_answer("pod1", "client", "10.96.1.2")
    assert network.ask("client", "10.96.1.2", 81) == "refused"
    assert network.ask("node", "10.96.1.2", 81) == "refused"
    assert network.ask("client", "10.96.200.200") == "timeout"


def test_service_without_endpoints_refuses_until_it_has_one(network: ProxyNetwork) -> None:
    network.apply(network.service("empty", "10.96.1.3", type="NodePort", nodePort=30003))
    network.wait_answer("refused", "client", "10.96.1.3")
    assert network.ask("node", "10.96.1.3") == "refused"
    assert network.ask("client", NODE_IP, 30003) == "refused"
    network.apply(network.endpoints("empty", "pod2"))
    network.wait_answer("pod2", "client", "10.96.1.3")
    network.kubectl("delete", "endpointslice", "empty-1")
    network.wait_answer("refused", "client", "10.96.1.3")


def test_node_port_is_open_at_the_primary_address_only(network: ProxyNetwork) -> None:
    service = network.service("nodeport", "10.96.1.4", type="NodePort", nodePort=30004)
    network.apply(service, network.endpoints("nodeport", "pod1", "pod2"))
    network.wait_answer("pod", "client", NODE_IP, 30004)
    assert network.answering("client", NODE_IP, 30004) == {"pod1", "pod2"}
    assert network.ask("node", NODE_IP, 30004).startswith("pod")
    assert network.ask("client", GATEWAYS["pod1"], 30004) == "refused"  # another address of the node
    assert network.ask("node", "127.0.0.1", 30004) == "refused"


def test_external_policy_local_keeps_the_source_and_drops_without_local_endpoints(network: ProxyNetwork) -> None:
    service = network.service("locally", "10.96.1.5", type="NodePort", nodePort=30005, externalTrafficPolicy="Local")
    network.apply(service, network.endpoints("locally", "pod1", "pod2", local=("pod1",)))
    network.wait_answer("pod", "client", NODE_IP, 30005)
    assert network.answers("client", NODE_IP, 30005) == {f"pod1 {CLIENT_IP}"}
    assert network.answering("node", NODE_IP, 30005) == {"pod1", "pod2"}  # the node's own traffic: all
    network.apply(network.endpoints("locally", "pod1", "pod2"))
    network.wait_answer("timeout", "client", NODE_IP, 30005)
    assert network.answering("node", NODE_IP, 30005) == {"pod1", "pod2"}
    assert network.ask("client", "10.96.1.5").startswith("pod")


def test_internal_policy_local_uses_local_endpoints_only(network: ProxyNetwork) -> None:
    service = network.service("inside", "10.96.1.6", internalTrafficPolicy="Local")
    network.apply(service, network.endpoints("inside", "pod1", "pod2", local=("pod2",)))
    network.wait_answer("pod", "node", "10.96.1.6")
    assert network.answering("node", "10.96.1.6") == {"pod2"}
    network.apply(network.endpoints("inside", "pod1", "pod2"))
    network.wait_answer("timeout", "node", "10.96.1.6")


def test_load_balancer_respects_source_ranges_and_ip_mode(network: ProxyNetwork) -> None:
    service = network.service(
        "balanced", "10.96.1.7", type="LoadBalancer", nodePort=30007, loadBalancerSourceRanges=[f"{CLIENT_IP}/32"]
    )
    network.apply(service, network.endpoints("balanced", "pod1", "pod2"))
    path = "/api/v1/namespaces/default/services/balanced"
    ingress = [{"ip": "203.0.113.7", "ipMode": "VIP"}, {"ip": "203.0.113.8", "ipMode": "Proxy"}]
    network.set_status(path, {"loadBalancer": {"ingress": ingress}})
    network.wait_answer("pod", "client", "203.0.113.7")
    assert network.ask("pod1", "203.0.113.7") == "timeout"  # not in the ranges
    assert network.ask("pod1", "10.96.1.7").startswith("pod")  # which do not concern other addresses
    assert "203.0.113.8" not in network.list_table()


def test_external_ip(network: ProxyNetwork) -> None:
    network.apply(
        network.service("external", "10.96.1.8", externalIPs=["203.0.113.9"]), network.endpoints("external", "pod2")
    )
    network.wait_answer("pod2", "client", "203.0.113.9")
    network.apply(network.service("external", "10.96.1.8", externalIPs=[]))
    network.eventually(lambda: "203.0.113.9" not in network.list_table())


def test_session_affinity_holds_over_a_killed_proxy(network: ProxyNetwork) -> None:
    config = {"clientIP": {"timeoutSeconds": 3600}}
    service = network.service("sticky", "10.96.1.9", sessionAffinity="ClientIP", sessionAffinityConfig=config)
    network.apply(service, network.endpoints("sticky", "pod1", "pod2"))
    network.wait_answer("pod", "client", "10.96.1.9")
    (before,) = network.answering("client", "10.96.1.9")
    network.stop_proxy(signal.SIGKILL)
    assert network.answering("client", "10.96.1.9") == {before}
    handle = _handle(network)
    network.start_proxy()
    network.eventually(lambda: _handle(network) not in ("", handle))
    assert network.answering("client", "10.96.1.9") == {before}
    network.apply(network.endpoints("sticky", *({"pod1", "pod2"} - {before})))
    network.wait_answer(*({"pod1", "pod2"} - {before}), "client", "10.96.1.9")


def test_restart_does_not_cut_a_connection_nor_touch_other_tables(network: ProxyNetwork) -> None:
    network.sh("node", "nft 'add table ip foreign; add chain ip foreign kept { type filter hook input priority 5; }'")
    foreign = network.list_table("ip", "foreign")
    network.apply(network.service("steady", "10.96.1.10"), network.endpoints("steady", "pod1", "pod2"))
    network.wait_answer("pod", "client", "10.96.1.10")
    script = (
        "import socket,sys\n"
        "sock = socket.create_connection(('10.96.1.10', 80), 30)\n"
        "lines = sock.makefile('rw')\n"
        "print(lines.readline(), end='', flush=True)\n"
        "for word in sys.stdin:\n"
        "    lines.write(word); lines.flush(); print(lines.readline(), end='', flush=True)\n"
    )
    command = network.enter("client", sys.executable, "-S", "-c", script)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        assert client.stdout.readline().startswith("pod")
        handle = _handle(network)
        network.stop_proxy()
        network.start_proxy()
        network.eventually(lambda: _handle(network) not in ("", handle))
        client.stdin.write("after\n")
        client.stdin.flush()
        assert client.stdout.readline() == "after\n"
        client.stdin.close()
    assert network.list_table("ip", "foreign") == foreign


def test_udp_flow_moves_to_a_new_endpoint(network: ProxyNetwork) -> None:
    network.apply(
        network.service("datagrams", "10.96.1.11", protocol="UDP"),
        network.endpoints("datagrams", "pod1", protocol="UDP"),
    )
    network.wait_answer("pod1", "client", "10.96.1.11", 80, "udp")
    script = (
        "import socket,sys\n"
        "sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); sock.settimeout(1)\n"
        "sock.connect(('10.96.1.11', 80))\n"
        "for _ in sys.stdin:\n"
        "    try:\n"
        "        sock.send(b'x'); print(sock.recv(99).decode().split()[0], flush=True)\n"
        "    except OSError as error:\n"
        "        print('failed', flush=True)\n"
    )
    command = network.enter("client", sys.executable, "-S", "-c", script)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:

        def ask() -> str:
            assert client.stdin is not None
            assert client.stdout is not None
            client.stdin.write("\n")
            client.stdin.flush()
            return client.stdout.readline().strip()

        assert ask() == "pod1"
        network.apply(network.endpoints("datagrams", "pod2", protocol="UDP"))
        network.eventually(lambda: ask() == "pod2")  # from the same socket: its tracked flow was deleted
        network.kubectl("delete", "endpointslice", "datagrams-1")
        network.eventually(lambda: ask() == "failed")
        assert client.stdin is not None
        client.stdin.close()


def test_ipv6(network: ProxyNetwork) -> None:
    service = network.service("six", "fd96::6", type="NodePort", nodePort=30012)
    network.apply(service, network.endpoints("six", "pod1", "pod2", family="IPv6"))
    network.wait_answer("pod", "client", "fd96::6")
    assert network.answering("client", "fd96::6") == {"pod1", "pod2"}
    assert network.answering("client", "fd50::1", 30012) == {"pod1", "pod2"}
    assert network.ask("client", "fd96::6", 81) == "refused"


def test_health_check_node_port_follows_local_endpoints(network: ProxyNetwork) -> None:
    service = network.service(
        "checked",
        "10.96.1.13",
        type="LoadBalancer",
        nodePort=30013,
        externalTrafficPolicy="Local",
        healthCheckNodePort=30113,
    )
    network.apply(service, network.endpoints("checked", "pod1", "pod2", local=("pod1",)))
    network.eventually(lambda: _get(network, "client", NODE_IP, 30113).startswith("200"))
    assert '"localEndpoints": 1' in _get(network, "client", NODE_IP, 30113)
    network.apply(network.endpoints("checked", "pod1", "pod2"))
    network.eventually(lambda: _get(network, "client", NODE_IP, 30113).startswith("503"))
    network.kubectl("delete", "service", "checked")
    network.eventually(lambda: _get(network, "client", NODE_IP, 30113) == "refused")


def test_pages_and_events(network: ProxyNetwork) -> None:
    assert '"nodeEligible":true' in _get(network, "client", NODE_IP, 10256, "/healthz")
    assert _get(network, "node", "127.0.0.1", 10249, "/proxyMode") == "200 nftables"
    metrics = _get(network, "node", "127.0.0.1", 10249, "/metrics")
    assert 'kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv6"}' in metrics
    assert 'kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family="IPv4"} 0' in metrics
    assert '"mode":"nftables"' in _get(network, "node", "127.0.0.1", 10249, "/configz")
    events = network.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}")
    assert "Starting" in events


def test_why_packet_says_what_happens(network: ProxyNetwork) -> None:
    service = network.service("traced", "10.96.1.15", type="NodePort", nodePort=30015, externalTrafficPolicy="Local")
    network.apply(service, network.endpoints("traced", "pod1", "pod2", local=("pod2",)))
    network.wait_answer("pod2", "client", NODE_IP, 30015)

    def why(source: str, host: str, port: int) -> str:
        flags = ("--node", NODE, "--cluster-cidr", "10.244.0.0/16", "--kubeconfig", str(network.kubeconfig))
        done = network.run_program("why-packet", host, str(port), "--from", source, *flags)
        assert done.returncode == 0, done.stderr
        return done.stdout

    both = f"{POD_IPS['pod1']}:8080, {POD_IPS['pod2']}:8080"
    assert why(CLIENT_IP, NODE_IP, 30015) == (
        f"forward: default/traced:p\nendpoints: {POD_IPS['pod2']}:8080\nmasquerade: no\n"
    )
    assert network.answers("client", NODE_IP, 30015) == {f"pod2 {CLIENT_IP}"}
    assert f"endpoints: {both}\nmasquerade: yes" in why(NODE_IP, NODE_IP, 30015)
    assert network.answering("node", NODE_IP, 30015) == {"pod1", "pod2"}
    assert why(CLIENT_IP, "10.96.1.15", 81).startswith("reject")
    assert network.ask("client", "10.96.1.15", 81) == "refused"


def test_program_nft_takes_the_place_of_the_library(network: ProxyNetwork) -> None:
    script = (
        "import asyncio\n"
        "from kubeloop.nftables.library import open_nftables\n"
        "async def main():\n"
        "    for library in ('libnftables.so.1', 'libnone.so'):\n"
        "        nftables = await open_nftables(library)\n"
        "        name = type(nftables).__name__.lower()\n"
        "        await nftables.run(f'add table ip checked-{name}', check=True)\n"
        "        await nftables.run(f'add table ip made-{name}')\n"
        "        try:\n"
        "            await nftables.run(f'add table ip half-{name}\\ndelete chain ip half-{name} none')\n"
        "        except Exception as error:\n"
        "            print(type(error).__name__)\n"
        "        print(await nftables.run('list tables ip'))\n"
        "        await nftables.close()\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(network.enter("node", sys.executable, "-c", script), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("NftablesNotFound") == 2
    assert "made-libnftables" in done.stdout
    assert "made-nftcommand" in done.stdout
    assert "checked-" not in done.stdout
    assert "half-" not in done.stdout


def test_service_of_another_proxy_is_ignored(network: ProxyNetwork) -> None:
    service = network.service("theirs", "10.96.1.14")
    network.apply(service, network.endpoints("theirs", "pod1"))
    network.wait_answer("pod1", "client", "10.96.1.14")
    label = {"service.kubernetes.io/service-proxy-name": "other"}
    network.apply({**service, "metadata": {"name": "theirs", "labels": label}})
    network.eventually(lambda: "10.96.1.14" not in network.list_table())


def test_cleanup_deletes_the_tables_and_only_them(network: ProxyNetwork) -> None:
    network.sh("node", "nft 'add table ip foreign2'")
    network.stop_proxy()
    assert network.list_table()
    done = network.run_program("proxy", "--cleanup")
    assert done.returncode == 0, done.stderr
    assert not network.list_table()
    assert not network.list_table("ip6")
    assert network.list_table("ip", "foreign2")
    network.start_proxy()
    network.eventually(network.list_table)


def _handle(network: ProxyNetwork) -> str:
    """Return the handle of the table: another one after a replacement."""
    return network.sh("node", "nft -a list table ip kube-proxy", check=False).partition("\n")[0]


def _get(network: ProxyNetwork, place: str, host: str, port: int, path: str = "/") -> str:
    """Return status and body of a page, or `refused`."""
    script = (
        "import http.client,sys\n"
        "try:\n"
        "    connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=10)\n"
        "    connection.request('GET', sys.argv[3]); found = connection.getresponse()\n"
        "    print(found.status, found.read().decode())\n"
        "except ConnectionRefusedError:\n"
        "    print('refused')\n"
    )
    command = network.enter(place, sys.executable, "-S", "-c", script, host, str(port), path)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("seed", range(3))
def test_random_changes_leave_the_table_that_is_written_at_once(seed: int) -> None:
    if sys.platform != "linux":
        pytest.skip(NEEDS_LINUX)
    if os.geteuid() != 0:
        pytest.skip(NEEDS_ROOT)
    command = ["unshare", "--net", sys.executable, "-m", "tests.realnode.random_table_changes", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
