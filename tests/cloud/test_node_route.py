# SPDX-License-Identifier: Apache-2.0
"""The cloud's routes are those of the nodes, and nodes say whether theirs are there."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.meta.conditions import find_condition
from kubeloop.cloud.context import ControllerUnsupported
from kubeloop.cloud.node_route import CONDITION, wire
from kubeloop.cloud.provider import CloudError, Route
from kubeloop.cloud.route_plan import InvalidClusterCidr
from kubeloop.testing import Cluster, node
from tests.cloud.memory_cloud import MemoryCloud, start

NETWORK = "10.244.0.0/16"
PERIOD = 10
FIRST, SECOND = "10.244.1.0/24", "10.244.2.0/24"


def routed(name: str, *networks: str) -> Node:
    return node(name, pod_cidr=networks[0], pod_cidrs=networks) if networks else node(name)


def begin(cluster: Cluster, *routes: Route, network: str = NETWORK) -> MemoryCloud:
    cloud = MemoryCloud()
    cloud.routes.routes = list(routes)
    start(cluster, wire, cloud, cluster_cidr=network)
    return cloud


def routes(cloud: MemoryCloud) -> set[tuple[str, str]]:
    return {(one.target_node, one.destination) for one in cloud.routes.routes}


def condition(cluster: Cluster, name: str = "n1") -> tuple[str, str, str] | None:
    found: Any = find_condition(cluster.client.get(Node, name).status.conditions, CONDITION)
    return None if found is None else (found.status, found.reason, found.message)


MADE = ("False", "RouteCreated", "RouteController created a route")
NOT_MADE = ("True", "NoRouteCreated", "RouteController failed to create a route")


def test_every_range_of_every_node_gets_a_route(cluster: Cluster) -> None:
    cluster.add(routed("n1", FIRST, "fd00:1::/64"), routed("n2", SECOND), routed("n3"))
    cloud = begin(cluster, network=f"{NETWORK},fd00::/16")
    assert routes(cloud) == {("n1", FIRST), ("n1", "fd00:1::/64"), ("n2", SECOND)}
    assert condition(cluster, "n1") == condition(cluster, "n2") == MADE
    assert condition(cluster, "n3") is None


def test_correct_route_is_unchanged(cluster: Cluster) -> None:
    cluster.add(routed("n1", FIRST))
    cloud = begin(cluster, Route("n1", FIRST, "r"))
    cluster.advance(minutes=1)
    assert set(cloud.routes.calls) == {"list"}
    assert condition(cluster) == MADE


def test_stale_routes_are_deleted_and_routes_outside_the_cidr_are_kept(cluster: Cluster) -> None:
    cluster.add(routed("n1", FIRST))
    cloud = begin(cluster, Route("gone", SECOND, "a"), Route("n1", SECOND, "b"), Route("gone", "192.168.0.0/24", "c"))
    assert routes(cloud) == {("n1", FIRST), ("gone", "192.168.0.0/24")}


def test_blackhole_is_replaced(cluster: Cluster) -> None:
    cluster.add(routed("n1", FIRST))
    cloud = begin(cluster, Route("", FIRST, "hole", blackhole=True), Route("n1", SECOND, "b", blackhole=True))
    assert [(one.target_node, one.blackhole) for one in cloud.routes.routes] == [("n1", False)]


def test_route_is_created_and_deleted_with_its_node(cluster: Cluster) -> None:
    cloud = begin(cluster)
    cluster.add(routed("n1", FIRST))
    cluster.advance(PERIOD + 1)
    assert routes(cloud) == {("n1", FIRST)}
    cluster.client.delete(Node, "n1")
    cluster.advance(PERIOD + 1)
    assert routes(cloud) == set()


def test_failed_route_records_an_event_and_is_retried(cluster: Cluster) -> None:
    cluster.add(routed("n1", FIRST))
    cloud = MemoryCloud()
    cloud.routes.fail("create", CloudError("no quota"))
    start(cluster, wire, cloud, cluster_cidr=NETWORK)
    assert condition(cluster) == NOT_MADE
    (event,) = cluster.events(reason="FailedToCreateRoute")
    uid = cluster.client.get(Node, "n1").metadata.uid
    assert event.message.startswith(f"Could not create route {uid} {FIRST} for node n1 after ")
    assert event.message.endswith(": no quota")
    assert event.source.component == "route_controller"
    cluster.advance(PERIOD + 1)
    assert condition(cluster) == MADE


def test_failed_list_changes_no_routes(cluster: Cluster) -> None:
    cluster.add(routed("n1", FIRST))
    cloud = MemoryCloud()
    cloud.routes.fail("list", *[CloudError("busy")] * 2)
    start(cluster, wire, cloud, cluster_cidr=NETWORK)
    cluster.advance(PERIOD)
    assert condition(cluster) is None
    cluster.advance(PERIOD + 1)
    assert condition(cluster) == MADE


def test_condition_is_written_once(cluster: Cluster) -> None:
    cluster.add(routed("n1", FIRST))
    begin(cluster)
    before = cluster.client.get(Node, "n1").metadata.resource_version
    cluster.advance(minutes=5)
    assert cluster.client.get(Node, "n1").metadata.resource_version == before


def test_other_conditions_are_kept(cluster: Cluster) -> None:
    cluster.add(routed("n1", FIRST))
    begin(cluster)
    assert {one.type for one in cluster.client.get(Node, "n1").status.conditions} == {"Ready", CONDITION}


@pytest.mark.parametrize("networks", ["", "nonsense", "10.0.0.0/8,10.1.0.0/16", "10.0.0.0/8,fd00::/8,10.1.0.0/16"])
def test_invalid_networks_are_rejected(cluster: Cluster, networks: str) -> None:
    with pytest.raises(InvalidClusterCidr):
        start(cluster, wire, MemoryCloud(), cluster_cidr=networks)


def test_flag_disables_the_controller(cluster: Cluster) -> None:
    with pytest.raises(ControllerUnsupported):
        start(cluster, wire, MemoryCloud(), cluster_cidr=NETWORK, configure_cloud_routes=False)
