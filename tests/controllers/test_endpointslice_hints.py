# SPDX-License-Identifier: Apache-2.0
"""Tests of hints: zones and nodes of endpoints by traffic distribution or capacity."""

from __future__ import annotations

from collections import Counter

import pytest

from kubeloop.api.generated.core_v1 import Node
from kubeloop.controllers.endpointslice import wire
from kubeloop.testing import Cluster
from tests.controllers.services import (
    add_node,
    add_pod,
    change_service,
    endpoints_in,
    only_slice,
    service,
    set_pod,
    slices,
    start,
)

AUTO = {"service.kubernetes.io/topology-mode": "Auto"}


def hints(cluster: Cluster) -> dict[str, tuple[list[str], list[str]]]:
    """Return zone and node hints by pod."""
    found = endpoints_in(*slices(cluster))
    return {
        name: ([], []) if one.hints is None else (
            [zone.name for zone in one.hints.for_zones], [each.name for each in one.hints.for_nodes]
        )
        for name, one in found.items()
    }  # fmt: skip


def zones_hinted(cluster: Cluster) -> Counter[str]:
    return Counter(zone for zones, _ in hints(cluster).values() for zone in zones)


def spread_pods(cluster: Cluster, zones: str, pods: str) -> None:
    """A node in each zone, and pods on these nodes, by the letters of zones."""
    for zone in zones:
        add_node(cluster, f"n{zone}", zone=zone)
    for number, zone in enumerate(pods):
        add_pod(cluster, f"p{number}", f"10.1.0.{number + 1}", on=f"n{zone}")


@pytest.mark.parametrize("distribution", ["PreferClose", "PreferSameZone"])
def test_prefer_close_traffic_stays_in_its_zone(cluster: Cluster, distribution: str) -> None:
    spread_pods(cluster, "ab", "ab")
    cluster.start(wire)
    cluster.add(service(trafficDistribution=distribution))
    cluster.settle()
    assert hints(cluster) == {"p0": (["a"], []), "p1": (["b"], [])}


def test_prefer_same_node_traffic_stays_on_its_node(cluster: Cluster) -> None:
    spread_pods(cluster, "ab", "ab")
    cluster.start(wire)
    cluster.add(service(trafficDistribution="PreferSameNode"))
    cluster.settle()
    assert hints(cluster) == {"p0": (["a"], ["na"]), "p1": (["b"], ["nb"])}
    change_service(cluster, {"spec": {"trafficDistribution": "PreferSameZone"}})
    assert hints(cluster) == {"p0": (["a"], []), "p1": (["b"], [])}


def test_endpoint_that_is_not_ready_has_no_hints(cluster: Cluster) -> None:
    spread_pods(cluster, "ab", "ab")
    cluster.start(wire)
    cluster.add(service(trafficDistribution="PreferClose"))
    cluster.settle()
    set_pod(cluster, "p1", ready=False)
    assert hints(cluster) == {"p0": (["a"], []), "p1": ([], [])}


def test_hints_are_removed_when_disabled(cluster: Cluster) -> None:
    spread_pods(cluster, "ab", "ab")
    cluster.start(wire)
    cluster.add(service(trafficDistribution="PreferClose"))
    cluster.settle()
    change_service(cluster, {"spec": {"trafficDistribution": None}})
    assert hints(cluster) == {"p0": ([], []), "p1": ([], [])}


def test_hints_by_capacity_balance_uneven_zones(cluster: Cluster) -> None:
    spread_pods(cluster, "ab", "aaaaab")
    cluster.start(wire)
    cluster.add(service(about={"annotations": AUTO}))
    cluster.settle()
    assert zones_hinted(cluster) == {"a": 3, "b": 3}
    (event,) = cluster.events(reason="TopologyAwareHintsEnabled")
    assert (event.type, event.message) == ("Normal", "Topology Aware Hints has been enabled, addressType: IPv4")


def test_larger_zone_gets_more_endpoints(cluster: Cluster) -> None:
    add_node(cluster, "na", zone="a", cpu="6")
    add_node(cluster, "nb", zone="b", cpu="2")
    for number in range(8):
        add_pod(cluster, f"p{number}", f"10.1.0.{number + 1}", on="nb")
    cluster.start(wire)
    cluster.add(service(about={"annotations": {"service.kubernetes.io/topology-aware-hints": "auto"}}))
    cluster.settle()
    assert zones_hinted(cluster) == {"a": 6, "b": 2}


@pytest.mark.parametrize(
    ("zones", "pods", "why"),
    [
        (
            ("a", ""),
            "aa",
            "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes",
        ),
        (("a", "b"), "a", "Insufficient number of endpoints (1 endpoints, 2 zones)"),
        (
            ("a", "b", "c"),
            "aaaa",
            "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold "
            "(4 endpoints, 3 zones)",
        ),
    ],
)
def test_unsuitable_hints_are_not_set(
    cluster: Cluster, zones: tuple[str, ...], pods: str, why: str
) -> None:  # fmt: skip
    for zone in zones:
        add_node(cluster, f"n{zone or 'x'}", zone=zone)
    for number, zone in enumerate(pods):
        add_pod(cluster, f"p{number}", f"10.1.0.{number + 1}", on=f"n{zone}")
    cluster.start(wire)
    cluster.add(service(about={"annotations": AUTO}))
    cluster.settle()
    assert zones_hinted(cluster) == {}
    event = cluster.events(reason="TopologyAwareHintsDisabled")[-1]
    assert (event.type, event.message) == ("Warning", f"{why}, addressType: IPv4")


def test_removed_annotation_removes_the_hints(cluster: Cluster) -> None:
    spread_pods(cluster, "ab", "ab")
    cluster.start(wire)
    cluster.add(service(about={"annotations": AUTO}))
    cluster.settle()
    change_service(cluster, {"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Disabled"}}})
    assert zones_hinted(cluster) == {}
    (event,) = cluster.events(reason="TopologyAwareHintsDisabled")
    assert event.message == "Topology Aware Hints has been disabled, addressType: IPv4"


def test_annotation_takes_precedence_over_traffic_distribution(cluster: Cluster) -> None:
    spread_pods(cluster, "ab", "aaab")
    cluster.start(wire)
    cluster.add(service(about={"annotations": AUTO}, trafficDistribution="PreferSameNode"))
    cluster.settle()
    assert zones_hinted(cluster) == {"a": 2, "b": 2}
    assert all(nodes == [] for _, nodes in hints(cluster).values())


def test_zone_without_nodes_gets_no_traffic(cluster: Cluster) -> None:
    spread_pods(cluster, "abc", "aabbcc")
    cluster.start(wire)
    cluster.add(service(about={"annotations": AUTO}))
    cluster.settle()
    assert zones_hinted(cluster) == {"a": 2, "b": 2, "c": 2}
    status = {"conditions": [{"type": "Ready", "status": "False"}]}
    for zone in "bc":
        cluster.client.patch(Node, f"n{zone}", {"status": status}, subresource="status")
    cluster.settle()
    set_pod(cluster, "p5", ready=False)
    assert zones_hinted(cluster) == {}


def test_unbalanced_service_gets_new_hints_after_node_changes(cluster: Cluster) -> None:
    spread_pods(cluster, "ab", "aaabbb")
    cluster.start(wire)
    cluster.add(service(about={"annotations": AUTO}))
    cluster.settle()
    add_node(cluster, "nc", zone="c")
    cluster.settle()
    assert zones_hinted(cluster) == {"a": 2, "b": 2, "c": 2}


def test_control_plane_nodes_are_not_counted(cluster: Cluster) -> None:
    spread_pods(cluster, "ab", "ab")
    add_node(cluster, "nc", zone="c")
    cluster.client.patch(Node, "nc", {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}})
    cluster.start(wire)
    cluster.add(service(about={"annotations": AUTO}))
    cluster.settle()
    assert zones_hinted(cluster) == {"a": 1, "b": 1}


def test_slices_with_valid_hints_are_unchanged(cluster: Cluster) -> None:
    spread_pods(cluster, "ab", "abababab")
    start(cluster, wire, max_endpoints_per_slice=4)
    cluster.add(service(about={"annotations": AUTO}))
    cluster.settle()
    before = {one.metadata.name: one.metadata.generation for one in slices(cluster)}
    set_pod(cluster, "p7", ready=False)
    set_pod(cluster, "p7", ready=True)
    after = {one.metadata.name: one.metadata.generation for one in slices(cluster)}
    assert sorted(after[name] - before[name] for name in before) == [0, 2]
    assert zones_hinted(cluster) == {"a": 4, "b": 4}


def test_prefer_close_without_zones_sets_no_hints(cluster: Cluster) -> None:
    add_node(cluster)
    cluster.start(wire)
    cluster.add(service(trafficDistribution="PreferClose"))
    add_pod(cluster, "p", "10.1.0.1")
    assert endpoints_in(only_slice(cluster))["p"].hints is None
