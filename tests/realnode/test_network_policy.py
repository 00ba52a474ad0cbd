# SPDX-License-Identifier: Apache-2.0
"""Network policies by the real kernel: nine pods on two nodes, and real connections between all of them."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.realnode.network_lab import NetworkLab, fetch, run_lab
from tests.realnode.network_probe import Probe, in_namespace
from tests.realnode.policy_cases import (
    CASES,
    NAMES,
    NAMESPACES,
    NS_Y,
    PORTS,
    TO_A,
    Allowed,
    PolicyCase,
    egress,
    from_only,
    ingress,
    pods,
    policy,
    tcp,
)
from tests.skips import NEEDS_LINUX, NEEDS_ROOT

pytestmark = pytest.mark.realnode
TABLE = "kubeloop-network-policy"
FAMILIES = (4, 6)
_NODES = {"a": 1, "b": 2, "c": 1}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkLab]:
    if sys.platform != "linux":
        pytest.skip(NEEDS_LINUX)
    if os.geteuid() != 0:
        pytest.skip(NEEDS_ROOT)
    with run_lab(tmp_path_factory.mktemp("policy"), 2) as lab:
        lab.apply(*(namespace(name) for name in NAMESPACES))
        for number in (1, 2):
            lab.start_agent(number, "host-gw")
        lab.wait_ready(1, 2)
        for space in NAMESPACES:
            for name in NAMES:
                lab.add_pod(f"{space}/{name}", _NODES[name])
        lab.wait_mesh()
        yield lab


@pytest.fixture
def lab(built: NetworkLab) -> Iterator[NetworkLab]:
    """The lab, without policies of other tests."""
    yield built
    built.kubectl("delete", "networkpolicies", "--all", "--all-namespaces")


def namespace(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"ns": name, **labels}}}


def wrong(lab: NetworkLab, allows: Allowed, protocols: tuple[str, ...]) -> list[str]:
    """Return the connections whose result is not the expected one."""
    expected: dict[Probe, tuple[str, bool]] = {}
    for source in lab.pods.values():
        for target in lab.pods.values():
            for port in PORTS:
                for protocol in protocols:
                    is_allowed = allows(source.key, target.key, port, protocol)
                    for version in FAMILIES:
                        probe = Probe(source.netns, target.address(version), port, protocol)
                        expected[probe] = (f"{source.key} → {target.key}:{port} {protocol} IPv{version}", is_allowed)
    found = lab.servers.probe(expected, 1.5)
    return [text for probe, (text, is_allowed) in expected.items() if bool(found[probe]) is not is_allowed]


def check(lab: NetworkLab, allows: Allowed, protocols: tuple[str, ...] = ("TCP",)) -> None:
    """Wait until exactly the allowed connections are possible."""
    last: list[str] = []

    def look() -> bool:
        last[:] = wrong(lab, allows, protocols)
        return not last

    try:
        lab.eventually(look, 30.0)
    except AssertionError as error:
        raise AssertionError(f"{len(last)} wrong, such as {last[:5]}") from error


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_policies(lab: NetworkLab, case: PolicyCase) -> None:
    if case.policies:
        lab.apply(*case.policies)
    check(lab, case.allows, case.protocols)


# IP blocks.


def block(lab: NetworkLab, target: str, *excepted: str, length: int = 0) -> list[dict[str, Any]]:
    """Return blocks with a pod's addresses, one for each IP family."""
    found = []
    for version in FAMILIES:
        full = 32 if version == 4 else 128
        networks = [f"{lab.pods[one].address(version)}/{full}" for one in excepted]
        address = lab.pods[target].address(version)
        base = f"{address}/{full}"
        if length:
            base = f"{address.rpartition('.')[0]}.0/24" if version == 4 else f"{address.rpartition('::')[0]}::/64"
        found.append({"ipBlock": {"cidr": base, **({"except": networks} if networks else {})}})
    return found


def test_egress_to_a_block(lab: NetworkLab) -> None:
    lab.apply(policy("x", "p", egress({"to": block(lab, "y/b")}, of=TO_A)))
    check(lab, lambda s, d, p, _: s == d or s != "x/a" or d == "y/b")


def test_ingress_from_a_block(lab: NetworkLab) -> None:
    lab.apply(policy("x", "p", ingress({"from": block(lab, "y/b"), "ports": [tcp(80)]}, to=TO_A)))
    check(lab, lambda s, d, p, _: s == d or d != "x/a" or (s == "y/b" and p == 80))


def test_exception_of_a_block(lab: NetworkLab) -> None:
    lab.apply(policy("x", "p", egress({"to": block(lab, "y/b", "z/b", length=1)}, of=TO_A)))
    check(lab, lambda s, d, p, _: s == d or s != "x/a" or (d[2] == "b" and d != "z/b"))


def test_exception_that_another_policy_allows(lab: NetworkLab) -> None:
    lab.apply(
        policy("x", "p", egress({"to": block(lab, "y/b", "z/b", length=1)}, of=TO_A)),
        policy("x", "q", egress({"to": block(lab, "z/b")}, of=TO_A)),
    )
    check(lab, lambda s, d, p, _: s == d or s != "x/a" or d[2] == "b")


def test_block_of_everything_but_pods(lab: NetworkLab) -> None:
    everything = [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.244.0.0/16"]}},
        {"ipBlock": {"cidr": "::/0", "except": ["fd44::/32"]}},
    ]
    lab.apply(policy("x", "p", egress({"to": everything}, of=TO_A)))
    check(lab, lambda s, d, p, _: s == d or s != "x/a")
    lab.servers.add(lab.fabric, (8080,), "outside")
    for address in ("172.30.0.254", "fd30::fe"):
        probe = Probe(lab.pods["x/a"].netns, address, 8080)
        assert lab.servers.probe([probe], 3.0)[probe] == "outside"


# Changes.


def test_policy_is_updated(lab: NetworkLab) -> None:
    lab.apply(policy("x", "p", ingress({})))
    check(lab, lambda *_: True)
    lab.apply(policy("x", "p", ingress({"ports": [tcp(81)]})))
    check(lab, lambda s, d, p, _: s == d or d[0] != "x" or p == 81)


def test_policy_is_deleted(lab: NetworkLab) -> None:
    lab.apply(policy("x", "p", ingress()), policy("x", "q", egress(of=TO_A)))
    check(lab, lambda s, d, p, _: s == d or (d[0] != "x" and s != "x/a"))
    lab.kubectl("delete", "networkpolicy", "p", "-n", "x")
    check(lab, lambda s, d, p, _: s == d or s != "x/a")
    lab.kubectl("delete", "networkpolicy", "q", "-n", "x")
    check(lab, lambda *_: True)


def test_labels_of_a_namespace_change(lab: NetworkLab) -> None:
    lab.apply(policy("x", "p", ingress({"from": [{"namespaceSelector": pods(group="new")}]}, to=TO_A)))
    check(lab, from_only("x/a"))
    lab.kubectl("label", "namespace", "y", "group=new")
    check(lab, from_only("x/a", "y/a", "y/b", "y/c"))
    lab.kubectl("label", "namespace", "y", "group-")
    check(lab, from_only("x/a"))


def test_labels_of_a_peer_change(lab: NetworkLab) -> None:
    lab.apply(policy("x", "p", ingress({"from": [{**NS_Y, "podSelector": pods(group="new")}]}, to=TO_A)))
    check(lab, from_only("x/a"))
    lab.kubectl("label", "pod", "b", "-n", "y", "group=new")
    check(lab, from_only("x/a", "y/b"))
    lab.kubectl("label", "pod", "b", "-n", "y", "group-")
    check(lab, from_only("x/a"))


def test_labels_of_a_target_change(lab: NetworkLab) -> None:
    lab.apply(policy("x", "p", ingress(to=pods(target="isolated"))))
    check(lab, lambda *_: True)
    lab.kubectl("label", "pod", "a", "-n", "x", "target=isolated")
    check(lab, from_only("x/a"))
    lab.kubectl("label", "pod", "a", "-n", "x", "target-")
    check(lab, lambda *_: True)


# Nodes.


def answers(lab: NetworkLab, source: str, address: str, port: int = 80) -> bool:
    probe = Probe(source, address, port)
    return bool(lab.servers.probe([probe], 2.0)[probe])


def test_node_reaches_its_isolated_pods_and_another_node_does_not(lab: NetworkLab) -> None:
    lab.apply(policy("x", "p", {"policyTypes": ["Ingress", "Egress"]}))
    check(lab, lambda s, d, p, _: s == d or "x" not in (s[0], d[0]))
    for version in FAMILIES:
        address = lab.pods["x/a"].address(version)
        assert answers(lab, lab.node(1), address)
        assert not answers(lab, lab.node(2), address)


def test_egress_to_the_own_node_is_checked(lab: NetworkLab) -> None:
    for number in (1, 2):
        lab.servers.add(lab.node(number), (9090,), f"node {number}")
    assert answers(lab, lab.pods["x/a"].netns, "172.30.0.1", 9090)
    lab.apply(policy("x", "p", egress({"to": [NS_Y]}, of=TO_A)))
    check(lab, lambda s, d, p, _: s == d or s != "x/a" or d[0] == "y")
    for address in ("172.30.0.1", "172.30.0.2", "fd30::1", "fd30::2"):
        assert not answers(lab, lab.pods["x/a"].netns, address, 9090)
    assert answers(lab, lab.pods["x/c"].netns, "172.30.0.1", 9090)


def test_ping_obeys_rules_without_ports(lab: NetworkLab) -> None:
    lab.apply(policy("x", "p", ingress({"from": [NS_Y]}, to=TO_A)))
    check(lab, from_only("x/a", "y/a", "y/b", "y/c"))
    for version in FAMILIES:
        address = lab.pods["x/a"].address(version)
        assert ping(lab.pods["y/b"].netns, address)
        assert not ping(lab.pods["z/b"].netns, address)
    lab.apply(policy("x", "p", ingress({"from": [NS_Y], "ports": [tcp(80)]}, to=TO_A)))
    lab.eventually(lambda: not ping(lab.pods["y/b"].netns, lab.pods["x/a"].address(4)))


def ping(netns: str, address: str) -> bool:
    """Send an echo request by a raw socket; returns True if it is answered."""
    is_six = ":" in address

    def send() -> bool:
        family, protocol = (socket.AF_INET6, 58) if is_six else (socket.AF_INET, 1)
        with socket.socket(family, socket.SOCK_RAW, protocol) as raw:
            raw.settimeout(2.0)
            request = bytes((128 if is_six else 8, 0)) + b"\0\0" + b"\x12\x34\0\1"
            if not is_six:
                total = sum(int.from_bytes(request[n : n + 2], "big") for n in range(0, 8, 2))
                checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
                request = request[:2] + checksum.to_bytes(2, "big") + request[4:]
            raw.sendto(request, (address, 0))
            try:
                while True:
                    answer = raw.recv(200)
                    if answer[0 if is_six else 20] == (129 if is_six else 0):
                        return True
            except TimeoutError:
                return False

    return in_namespace(netns, send)


# Connections.


def test_new_policy_cuts_an_established_connection_in_both_directions(lab: NetworkLab) -> None:
    source, target = lab.pods["z/b"], lab.pods["x/a"]
    with in_namespace(target.netns, lambda: socket.create_server(("", 7000))) as server:
        server.settimeout(10.0)
        client = in_namespace(source.netns, lambda: socket.create_connection((target.address(4), 7000), 10.0))
        served, _ = server.accept()
        with client, served:
            for one in (client, served):
                one.settimeout(10.0)
            assert exchange(client, served)
            lab.apply(policy("x", "p", ingress({"from": [NS_Y]}, to=TO_A)))
            check(lab, from_only("x/a", "y/a", "y/b", "y/c"))
            for one in (client, served):
                one.settimeout(1.5)
            assert not sent(client, served)
            assert not sent(served, client)
            lab.apply(policy("x", "p", ingress({"from": [{"namespaceSelector": {}}]}, to=TO_A)))
            for one in (client, served):
                one.settimeout(30.0)
            assert served.recv(10) == b"word"  # by retransmission: the connection was cut, not reset
            assert client.recv(10) == b"word"


def exchange(one: socket.socket, other: socket.socket) -> bool:
    return sent(one, other) and sent(other, one)


def sent(one: socket.socket, other: socket.socket) -> bool:
    one.sendall(b"word")
    try:
        return other.recv(10) == b"word"
    except TimeoutError:
        return False


def test_service_addresses_are_judged_by_the_pod_behind_them(lab: NetworkLab) -> None:
    target = lab.pods["y/b"]
    service = f"""
        add table ip lab-service
        add chain ip lab-service nat {{ type nat hook prerouting priority -100; }}
        add rule ip lab-service nat ip daddr 10.96.0.10 tcp dport 8000 dnat to {target.address(4)}:80
    """
    run_nft(lab, 1, service)
    try:
        assert answers(lab, lab.pods["x/a"].netns, "10.96.0.10", 8000)
        lab.apply(policy("x", "p", egress({"to": [NS_Y], "ports": [tcp(80)]}, of=TO_A)))
        check(lab, lambda s, d, p, _: s == d or s != "x/a" or (d[0] == "y" and p == 80))
        assert answers(lab, lab.pods["x/a"].netns, "10.96.0.10", 8000)
        lab.apply(policy("x", "p", egress({"to": [{"ipBlock": {"cidr": "10.96.0.0/16"}}]}, of=TO_A)))
        check(lab, lambda s, d, p, _: s == d or s != "x/a")
        assert not answers(lab, lab.pods["x/a"].netns, "10.96.0.10", 8000)
    finally:
        run_nft(lab, 1, "delete table ip lab-service\n")


def run_nft(lab: NetworkLab, number: int, script: str) -> None:
    path = lab.folder / "script.nft"
    path.write_text(script)
    lab.run(lab.node(number), "nft", "-f", str(path))


# New pods, and agents that are away.


def test_pod_is_isolated_before_its_status_shows_its_address(lab: NetworkLab) -> None:
    lab.apply(policy("x", "p", egress({"to": [NS_Y]}, of=pods(pod="new"))))
    check(lab, lambda *_: True)
    without_status(lab, lambda: lab.add_pod("x/new", 1))
    try:  # the plugin has reported it: its first packets obey its policies
        netns = lab.pods["x/new"].netns
        assert not answers(lab, netns, lab.pods["z/a"].address(4))
        assert answers(lab, netns, lab.pods["y/a"].address(4))
    finally:
        lab.remove_pod("x/new")


def without_status(lab: NetworkLab, work: Callable[[], Any]) -> None:
    """Create a pod, but report no status."""
    report = NetworkLab.report_status
    try:
        NetworkLab.report_status = lambda self, pod: None  # type: ignore[method-assign]
        work()
    finally:
        NetworkLab.report_status = report  # type: ignore[method-assign]


def test_policies_stay_in_force_while_the_agent_is_away_and_new_pods_are_cut_off(lab: NetworkLab) -> None:
    lab.apply(policy("x", "p", ingress({"from": [NS_Y]})))
    expected: Allowed = lambda s, d, p, _: s == d or d[0] != "x" or s[0] == "y"  # noqa: E731
    check(lab, expected)
    lab.stop_agent(1, signal.SIGKILL)
    assert wrong(lab, expected, ("TCP",)) == []
    lab.add_pod("z/late", 1)  # no agent: the pod starts, but its address is unknown
    netns = lab.pods["z/late"].netns
    assert not answers(lab, netns, lab.pods["y/a"].address(4))
    lab.start_agent(1, "host-gw")
    lab.wait_ready(1)
    lab.eventually(lambda: answers(lab, netns, lab.pods["y/a"].address(4)))
    lab.remove_pod("z/late")
    check(lab, expected)


def test_removed_table_is_restored(lab: NetworkLab) -> None:
    lab.apply(policy("x", "p", ingress(to=TO_A)))
    check(lab, from_only("x/a"))
    lab.run(lab.node(1), "nft", "delete", "table", "inet", TABLE)
    lab.kubectl("label", "pod", "c", "-n", "z", "any=change", "--overwrite")  # starts a round before the timer does
    lab.apply(policy("z", "other", ingress(to=pods(pod="none"))))
    check(lab, from_only("x/a"))
    assert "kubeloop_network_policy_repairs_total 1" in fetch(lab.node(1), "/metrics")


def test_address_of_a_deleted_pod_has_no_rules(lab: NetworkLab) -> None:
    lab.apply(policy("x", "p", ingress(to=pods(pod="gone"))))
    pod = lab.add_pod("x/gone", 1, {"pod": "gone"})
    lab.eventually(lambda: pod.address(4) in lab.run(lab.node(1), "nft", "list", "map", "inet", TABLE, "ingress-4"))
    lab.remove_pod("x/gone")
    lab.eventually(lambda: pod.address(4) not in lab.run(lab.node(1), "nft", "list", "table", "inet", TABLE))


def test_ten_policies_are_one_lookup_for_other_pods(lab: NetworkLab) -> None:
    lab.apply(*(policy("x", f"p{number}", ingress({"ports": [tcp(8000 + number)]}, to=TO_A)) for number in range(10)))
    check(lab, from_only("x/a"))
    chain = json.loads(lab.run(lab.node(1), "nft", "-j", "list", "chain", "inet", TABLE, "forward"))["nftables"]
    assert sum("rule" in one for one in chain) < 20  # the chain that all packets walk does not grow with policies
