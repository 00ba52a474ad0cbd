# SPDX-License-Identifier: Apache-2.0
"""Pod network by the real kernel: nodes and pods are network namespaces, pods are connected by the CNI plugins."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from tests.realnode.network_lab import NetworkLab, bgp_sessions, node_routes
from tests.realnode.network_probe import Probe

pytestmark = pytest.mark.realnode
MOVED_SECONDS = 150.0  # the agent's connections have the old address: it must notice that they are dead


@pytest.fixture(scope="module", params=("host-gw", "vxlan", "bgp"))
def backend(lab: NetworkLab, request: pytest.FixtureRequest) -> Iterator[str]:
    """Agents of three nodes with a backend, each with one pod."""
    try:
        for number in (1, 2, 3):
            lab.start_agent(number, request.param)
        lab.wait_ready(1, 2, 3)
        for number in (1, 2, 3):
            lab.add_pod(f"default/p{number}", number)
        yield request.param
        for number in (1, 2, 3):
            lab.remove_pod(f"default/p{number}")
    finally:
        lab.stop()


def test_pods_reach_each_other_by_both_families(lab: NetworkLab, backend: str) -> None:
    lab.wait_mesh()
    source, target = lab.pods["default/p1"], lab.pods["default/p2"]
    # The target sees the source's own address: nothing is translated between pods.
    for version in (4, 6):
        udp = Probe(source.netns, target.address(version), 81, "UDP")
        assert lab.servers.probe([udp])[udp] == "default/p2"
    # The node itself reaches local and remote pods.
    for pod in lab.pods.values():
        for version in (4, 6):
            probe = Probe(lab.node(1), pod.address(version), 80)
            assert lab.servers.probe([probe], 3.0)[probe] == pod.key
    if backend == "bgp":
        states = bgp_sessions(lab, 1)
        assert len(states) == 4
        assert set(states.values()) == {"Established"}
    node = json.loads(lab.kubectl("get", "node", "n1", "-o", "json"))
    [condition] = [one for one in node["status"]["conditions"] if one["type"] == "NetworkUnavailable"]
    assert (condition["status"], condition["reason"]) == ("False", "RouteCreated")


def test_large_packets_fit(lab: NetworkLab, backend: str) -> None:
    lab.wait_mesh((4,))
    link = json.loads(lab.run(lab.pods["default/p1"].netns, "ip", "-j", "link", "show", "eth0"))[0]
    assert link["mtu"] == (1450 if backend == "vxlan" else 1500)


def test_node_leaves_and_returns(lab: NetworkLab, backend: str) -> None:
    lab.wait_mesh()
    lab.kubectl("delete", "node", "n3")
    lab.eventually(lambda: not any("10.244.3.0" in one for one in node_routes(lab, 1)))
    assert not lab.reaches("default/p1", "default/p3")
    assert lab.reaches("default/p1", "default/p2")
    lab.add_node_object(3)
    lab.eventually(lambda: lab.reaches("default/p1", "default/p3") and lab.reaches("default/p3", "default/p1", 6))


def test_agent_is_killed_and_takes_over(lab: NetworkLab, backend: str) -> None:
    lab.wait_mesh()
    before = node_routes(lab, 1)
    lab.stop_agent(1, signal.SIGKILL)
    assert lab.reaches("default/p1", "default/p2")
    assert node_routes(lab, 1) == before
    lab.kubectl("delete", "node", "n3")  # while the agent is away
    lab.start_agent(1, backend)
    lab.wait_ready(1)
    lab.eventually(lambda: not any("10.244.3.0" in one for one in node_routes(lab, 1)))
    assert lab.reaches("default/p1", "default/p2")
    lab.add_node_object(3)
    lab.eventually(lambda: node_routes(lab, 1) == before)
    lab.wait_mesh()


def test_node_changes_its_address(lab: NetworkLab, backend: str) -> None:
    lab.wait_mesh()
    try:
        move(lab, 3, "172.30.0.3", "172.30.0.33")
        lab.wait_mesh((4,), MOVED_SECONDS)
    finally:
        move(lab, 3, "172.30.0.33", "172.30.0.3")
    lab.wait_mesh((4, 6), MOVED_SECONDS)


def move(lab: NetworkLab, number: int, old: str, new: str) -> None:
    """Change the IPv4 address of a node's link, and the one of its status."""
    name = lab.node(number)
    lab.run(name, "ip", "address", "delete", f"{old}/24", "dev", "eth0")
    lab.run(name, "ip", "address", "add", f"{new}/24", "dev", "eth0")
    lab.run(name, "ip", "route", "add", "default", "via", "172.30.0.254")
    lab.set_node_addresses(number, new, f"fd30::{number}")


def test_packets_that_leave_the_cluster_have_the_address_of_the_node(lab: NetworkLab, backend: str) -> None:
    lab.wait_mesh((4,))
    # The fabric has no route to pods: it can answer only what comes from a node's address.
    lab.servers.add(lab.fabric, (8080,), "outside")
    for version, address in ((4, "172.30.0.254"), (6, "fd30::fe")):
        probe = Probe(lab.pods["default/p1"].netns, address, 8080)
        assert lab.servers.probe([probe], 3.0)[probe] == "outside", f"IPv{version}"
