# SPDX-License-Identifier: Apache-2.0
"""Tests of eligible nodes and of the node of a pod, with plain values."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    Pod,
    PodAffinity,
    PodSpec,
    Taint,
    Toleration,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.controllers.daemonset.nodes import Eligibility, NodeShouldRun, pin_to_node, target_node_of, tolerations_of

WANTED, MAY_STAY, UNWANTED = NodeShouldRun(True, True), NodeShouldRun(False, True), NodeShouldRun(False, False)


def node(*taints: Taint, **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name="a", labels=labels), spec=NodeSpec(taints=taints))


def should_run(node: Node, **spec: Any) -> NodeShouldRun:
    found = PodSpec(**spec)
    return Eligibility(found, tolerations_of(found)).evaluate(node)


@pytest.mark.parametrize(
    ("key", "effect", "expected"),
    [
        ("x", "NoSchedule", MAY_STAY),
        ("x", "NoExecute", UNWANTED),
        ("x", "PreferNoSchedule", WANTED),
        ("node.kubernetes.io/not-ready", "NoExecute", WANTED),
        ("node.kubernetes.io/not-ready", "NoSchedule", MAY_STAY),
        ("node.kubernetes.io/unschedulable", "NoSchedule", WANTED),
        ("node.kubernetes.io/network-unavailable", "NoSchedule", MAY_STAY),
    ],
)
def test_taints_decide_scheduling_and_eviction(key: str, effect: str, expected: NodeShouldRun) -> None:
    assert should_run(node(Taint(key=key, effect=effect))) == expected


def test_template_matches_by_name_labels_and_tolerations() -> None:
    assert should_run(node(), node_name="b") == UNWANTED
    assert should_run(node(), node_name="a") == WANTED
    assert should_run(node(disk="hdd"), node_selector={"disk": "ssd"}) == UNWANTED
    assert should_run(node(disk="ssd"), node_selector={"disk": "ssd"}) == WANTED
    tainted = node(Taint(key="x", effect="NoExecute"))
    assert should_run(tainted, tolerations=(Toleration(key="x", operator="Exists"),)) == WANTED


def test_daemon_tolerations_replace_limited_ones() -> None:
    short = Toleration(
        key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute", toleration_seconds=300
    )
    found = tolerations_of(PodSpec(tolerations=(short, Toleration(key="x"))))
    assert found[0].toleration_seconds is None
    assert [one.key for one in found[:2]] == ["node.kubernetes.io/not-ready", "x"]
    assert len(found) == 7
    assert len(tolerations_of(PodSpec(host_network=True))) == 7


def test_pin_to_node_replaces_node_affinity() -> None:
    zone = NodeSelectorRequirement(key="zone", operator="In", values=("x",))
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(zone,)),))
    before = Affinity(
        node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required),
        pod_affinity=PodAffinity(),
    )
    after = pin_to_node(before, "n")
    assert after.pod_affinity == PodAffinity()
    assert target_node_of(Pod(spec=PodSpec(affinity=after))) == "n"
    assert pin_to_node(None, "n").node_affinity == after.node_affinity


@pytest.mark.parametrize("values", [(), ("a", "b")])
def test_pod_without_single_node_affinity_has_no_node(values: tuple[str, ...]) -> None:
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=values)
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))
    affinity = Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))
    assert target_node_of(Pod(spec=PodSpec(affinity=affinity))) == ""
    assert target_node_of(Pod(spec=PodSpec(affinity=affinity, node_name="a"))) == "a"
    assert target_node_of(Pod()) == ""
