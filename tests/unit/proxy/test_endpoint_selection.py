# SPDX-License-Identifier: Apache-2.0
"""Choice of endpoints: the cases of upstream's topology tests, as tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubeloop.proxy.endpoint import EndpointInfo
from kubeloop.proxy.endpoint_selection import NodeTopology, select_endpoints
from kubeloop.proxy.service_port import ServicePortInfo

HERE = NodeTopology("n1", "za")
CLUSTER = ServicePortInfo("10.0.0.1", 80, "TCP")
EXTERNAL_LOCAL = replace(CLUSTER, node_port=30000, external_policy_local=True)
INTERNAL_LOCAL = replace(CLUSTER, internal_policy_local=True)
BOTH_LOCAL = replace(EXTERNAL_LOCAL, internal_policy_local=True)
MIXED = replace(INTERNAL_LOCAL, node_port=30000)  # internal Local, external Cluster

READY = {}
TERMINATING = {"is_ready": False, "is_serving": True, "is_terminating": True}
DEAD = {"is_ready": False, "is_serving": False, "is_terminating": True}
NOT_READY = {"is_ready": False, "is_serving": False}


def endpoint(number: int, *, local: bool = False, zones: str = "", nodes: str = "", **state: bool) -> EndpointInfo:
    return EndpointInfo(
        f"10.1.0.{number}", 80, local, zone_hints=frozenset(zones.split()), node_hints=frozenset(nodes.split()), **state
    )


def numbers(endpoints: tuple[EndpointInfo, ...]) -> list[int]:
    return [int(one.ip.rpartition(".")[2]) for one in endpoints]


def hinted(*zones: str) -> list[EndpointInfo]:
    return [endpoint(number, zones=zone) for number, zone in enumerate(zones, 1)]


@pytest.mark.parametrize(
    ("zones", "topology", "expected"),
    [
        (("za", "zb", "zc"), HERE, [1]),
        (("za", "zb", "za zc"), HERE, [1, 3]),
        (("za", "", "zc"), HERE, [1, 2, 3]),  # one endpoint without a hint
        (("zb", "zb", "zc"), HERE, [1, 2, 3]),  # none for this zone
        (("za", "zb", "zc"), NodeTopology("n1"), [1, 2, 3]),  # the node has no zone
        (("", "", ""), HERE, [1, 2, 3]),
    ],
)
def test_zone_hints(zones: tuple[str, ...], topology: NodeTopology, expected: list[int]) -> None:
    assert numbers(select_endpoints(hinted(*zones), CLUSTER, topology).cluster) == expected


@pytest.mark.parametrize(
    ("nodes", "zones", "expected"),
    [
        (("n1", "n2", "n3"), ("", "", ""), [1]),
        (("n1", "n2", "n3"), ("zb", "zb", "zb"), [1]),  # node hints before zone hints
        (("n2", "n2", "n3"), ("za", "zb", "zb"), [1]),  # no node hint for this node: zone hints
        (("n2", "n2", "n3"), ("zb", "zb", "zb"), [1, 2, 3]),
        (("n1", "", "n3"), ("zb", "za", "zb"), [2]),  # a node hint is missing: zone hints
    ],
)
def test_node_hints(nodes: tuple[str, ...], zones: tuple[str, ...], expected: list[int]) -> None:
    rows = [endpoint(n, nodes=node, zones=zone) for n, (node, zone) in enumerate(zip(nodes, zones, strict=True), 1)]
    assert numbers(select_endpoints(rows, CLUSTER, HERE).cluster) == expected


def test_hints_of_endpoints_that_are_not_ready_do_not_count() -> None:
    rows = [endpoint(1, zones="za"), endpoint(2, **TERMINATING), endpoint(3, zones="zb")]
    assert numbers(select_endpoints(rows, CLUSTER, HERE).cluster) == [1]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((READY, TERMINATING, NOT_READY), [1]),
        ((TERMINATING, TERMINATING, DEAD), [1, 2]),  # none is ready
        ((DEAD, DEAD, NOT_READY), []),
    ],
)
def test_terminating_endpoints_serve_if_none_is_ready(states: tuple[dict[str, bool], ...], expected: list[int]) -> None:
    rows = [endpoint(number, **state) for number, state in enumerate(states, 1)]
    found = select_endpoints(rows, CLUSTER, HERE)
    assert numbers(found.cluster) == numbers(found.reachable) == expected
    assert found.has_endpoints is bool(expected)


@pytest.mark.parametrize(
    ("port", "cluster", "local", "reachable"),
    [
        (CLUSTER, [1, 2], [], [1, 2]),
        (EXTERNAL_LOCAL, [1, 2], [1], [1, 2]),
        (INTERNAL_LOCAL, [], [1], [1]),
        (BOTH_LOCAL, [1, 2], [1], [1, 2]),  # the node's own traffic to the node port reaches all
        (MIXED, [1, 2], [1], [1, 2]),
        (replace(EXTERNAL_LOCAL, node_port=0), [1, 2], [], [1, 2]),  # nothing external to be local
    ],
)
def test_traffic_policies(port: ServicePortInfo, cluster: list[int], local: list[int], reachable: list[int]) -> None:
    found = select_endpoints([endpoint(1, local=True), endpoint(2)], port, HERE)
    assert (numbers(found.cluster), numbers(found.local), numbers(found.reachable)) == (cluster, local, reachable)
    assert found.has_endpoints


def test_internal_policy_local_without_local_endpoints_still_has_endpoints() -> None:
    found = select_endpoints([endpoint(1), endpoint(2)], INTERNAL_LOCAL, HERE)
    assert found == ((), (), (), True)


def test_local_and_cluster_fall_back_to_terminating_endpoints_independently() -> None:
    rows = [endpoint(1, local=True, **TERMINATING), endpoint(2), endpoint(3, local=True, **DEAD)]
    found = select_endpoints(rows, EXTERNAL_LOCAL, HERE)
    assert (numbers(found.cluster), numbers(found.local), numbers(found.reachable)) == ([2], [1], [1, 2])


def test_local_endpoints_ignore_topology() -> None:
    rows = [endpoint(1, local=True, zones="zb"), endpoint(2, zones="za"), endpoint(3, zones="zb")]
    found = select_endpoints(rows, EXTERNAL_LOCAL, HERE)
    assert (numbers(found.cluster), numbers(found.local), numbers(found.reachable)) == ([2], [1], [1, 2])


@pytest.mark.parametrize("port", [CLUSTER, EXTERNAL_LOCAL, INTERNAL_LOCAL])
def test_no_endpoints(port: ServicePortInfo) -> None:
    assert select_endpoints([], port, HERE) == ((), (), (), False)
    assert not select_endpoints([endpoint(1, **NOT_READY)], port, HERE).has_endpoints
