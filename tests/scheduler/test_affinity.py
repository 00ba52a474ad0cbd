# SPDX-License-Identifier: Apache-2.0
"""Pods near to and away from each other, and spread over the cluster."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.scheduler.scheduler import wire
from kubeloop.testing import Cluster, node
from tests.scheduler.cluster_objects import join, node_of, unschedulable_message

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def zones(cluster: Cluster) -> Cluster:
    """Two zones with two nodes each."""
    cluster.start(wire)
    for zone in ("east", "west"):
        for number in (1, 2):
            join(cluster, node(f"{zone}-{number}"), **{ZONE: zone})
    return cluster


def labelled(name: str, **spec: Any) -> Pod:
    containers = [{"name": "app", "image": "app"}]
    meta = {"name": name, "namespace": "default", "labels": {"app": name.split("-")[0]}}
    return from_plain({"metadata": meta, "spec": {"containers": containers, **spec}}, Pod)


def term(app: str, key: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def side(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def test_pod_follows_its_affinity(zones: Cluster) -> None:
    zones.add(labelled("db"))
    zones.settle()
    zone = node_of(zones, "db").split("-")[0]
    for number in range(4):
        zones.add(labelled(f"web-{number}", **side("podAffinity", term("db", ZONE))))
    zones.settle()
    assert {node_of(zones, f"web-{number}").split("-")[0] for number in range(4)} == {zone}


def test_pod_without_an_affinity_match_is_pending(zones: Cluster) -> None:
    zones.add(labelled("web", **side("podAffinity", term("db", ZONE))))
    zones.settle()
    assert "4 node(s) didn't match pod affinity rules" in unschedulable_message(zones, "web")
    zones.add(labelled("db"))
    zones.settle()
    zones.advance(seconds=2)
    assert node_of(zones, "web")


def test_first_pod_with_affinity_to_itself_can_run_anywhere(zones: Cluster) -> None:
    for number in range(3):
        zones.add(labelled(f"web-{number}", **side("podAffinity", term("web", ZONE))))
    zones.settle()
    assert len({node_of(zones, f"web-{number}").split("-")[0] for number in range(3)}) == 1


def test_pods_with_anti_affinity_get_a_node_each(zones: Cluster) -> None:
    for number in range(5):
        zones.add(labelled(f"web-{number}", **side("podAntiAffinity", term("web", "kubernetes.io/hostname"))))
    zones.settle()
    placed = Counter(node_of(zones, f"web-{number}") for number in range(5))
    assert sorted(placed) == ["", "east-1", "east-2", "west-1", "west-2"]
    (late,) = [f"web-{number}" for number in range(5) if not node_of(zones, f"web-{number}")]
    assert "4 node(s) didn't match pod anti-affinity rules" in unschedulable_message(zones, late)


def test_existing_anti_affinity_is_symmetric(zones: Cluster) -> None:
    for zone in ("east", "west"):
        zones.add(labelled(f"quiet-{zone}", nodeName=f"{zone}-1", **side("podAntiAffinity", term("loud", ZONE))))
    zones.add(labelled("loud"))
    zones.settle()
    assert "4 node(s) didn't satisfy existing pods anti-affinity rules" in unschedulable_message(zones, "loud")


def test_pods_are_spread_over_zones(zones: Cluster) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    for number in range(6):
        zones.add(labelled(f"web-{number}", topologySpreadConstraints=[constraint]))
    zones.settle()
    placed = Counter(node_of(zones, f"web-{number}").split("-")[0] for number in range(6))
    assert placed == {"east": 3, "west": 3}


def test_unsatisfiable_spread_constraint_is_reported(zones: Cluster) -> None:
    zones.client.patch("nodes", "west-1", {"spec": {"unschedulable": True}})
    zones.client.patch("nodes", "west-2", {"spec": {"unschedulable": True}})
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    for number in range(2):
        zones.add(labelled(f"web-{number}", topologySpreadConstraints=[constraint]))
    zones.settle()
    (late,) = [f"web-{number}" for number in range(2) if not node_of(zones, f"web-{number}")]
    assert (
        "2 node(s) didn't match pod topology spread constraints, 2 node(s) were unschedulable"
        in unschedulable_message(zones, late)
    )
    zones.client.patch("nodes", "west-1", {"spec": {"unschedulable": False}})
    zones.settle()
    zones.advance(seconds=2)
    assert node_of(zones, late) == "west-1"


def test_pods_of_a_service_are_spread_by_default(zones: Cluster) -> None:
    meta = {"name": "web", "namespace": "default"}
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    zones.client.create({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})
    zones.settle()
    for number in range(4):
        zones.add(labelled(f"web-{number}"))
        zones.settle()
    assert sorted(node_of(zones, f"web-{number}") for number in range(4)) == ["east-1", "east-2", "west-1", "west-2"]
