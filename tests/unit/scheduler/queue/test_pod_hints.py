# SPDX-License-Identifier: Apache-2.0
"""Tests of queueing hints for other pods."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.scheduler.framework.plugin import Plugin
from kubeloop.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from kubeloop.scheduler.plugins.nodes.node_ports import NodePorts
from kubeloop.scheduler.plugins.pod_topology_spread import PodTopologySpread
from kubeloop.scheduler.queue.cluster_event import ASSIGNED_POD, NODE, ActionType
from tests.unit.scheduler.queue.hint_cases import (
    NO,
    YES,
    ObjectChange,
    Row,
    apart,
    bind,
    delete,
    ended,
    helps,
    itself,
    near,
    node,
    node_came,
    pod,
    spread,
    term,
    tolerating,
    update,
)

HTTP = {"containerPort": 80, "hostPort": 80, "protocol": "TCP"}


def listening(*ports: dict[str, Any], on: str = "", name: str = "web") -> Pod:
    return pod(name, on=on, containers=[{"name": "c", "ports": list(ports)}])


OF_PODS: dict[str, Row] = {
    "the port is free again": (NodePorts, listening(HTTP), ended(listening(HTTP, on="n1", name="o")), YES),
    "another port is free": (
        NodePorts, listening(HTTP), ended(listening({**HTTP, "hostPort": 81}, on="n1", name="o")), NO,
    ),
    "another protocol's port is free": (
        NodePorts, listening(HTTP), ended(listening({**HTTP, "protocol": "UDP"}, on="n1", name="o")), NO,
    ),
    "the port of one address is free, and all are wanted": (
        NodePorts, listening(HTTP), ended(listening({**HTTP, "hostIP": "10.0.0.1"}, on="n1", name="o")), YES,
    ),
    "somebody comes whom the pod wants near": (
        InterPodAffinity, near(term(app="db")), bind(pod("o", on="n1", labels={"app": "db"})), YES,
    ),
    "somebody comes whom only one of two terms means": (
        InterPodAffinity, near(term(app="db"), term(tier="x")), bind(pod("o", on="n1", labels={"app": "db"})), NO,
    ),
    "somebody else comes": (InterPodAffinity, near(term(app="db")), bind(pod("o", on="n1")), NO),
    "somebody comes who has no place": (
        InterPodAffinity, near(term(app="db")), bind(pod("o", labels={"app": "db"})), NO,
    ),
    "somebody becomes one whom the pod wants near": (
        InterPodAffinity, near(term(app="db")),
        update(pod("o", on="n1"), pod("o", on="n1", labels={"app": "db"}), ActionType.POD_LABEL, ASSIGNED_POD), YES,
    ),
    "somebody ceases to be one whom the pod avoids": (
        InterPodAffinity, apart(term(app="db")),
        update(pod("o", on="n1", labels={"app": "db"}), pod("o", on="n1"), ActionType.POD_LABEL, ASSIGNED_POD), YES,
    ),
    "somebody becomes one whom the pod avoids": (
        InterPodAffinity, apart(term(app="db")),
        update(pod("o", on="n1"), pod("o", on="n1", labels={"app": "db"}), ActionType.POD_LABEL, ASSIGNED_POD), NO,
    ),
    "somebody goes whom the pod avoids": (
        InterPodAffinity, apart(term(app="db")), ended(pod("o", on="n1", labels={"app": "db"})), YES,
    ),
    "somebody goes who avoids the pod": (
        InterPodAffinity, pod(labels={"app": "web"}), ended(apart(term(app="web"), on="n1")), YES,
    ),
    "somebody goes whom the pod wants near": (
        InterPodAffinity, near(term(app="db")), ended(pod("o", on="n1", labels={"app": "db"})), NO,
    ),
    "the pod's own labels are others": (
        InterPodAffinity, pod(), itself(pod(), pod(labels={"a": "b"}), ActionType.POD_LABEL), YES,
    ),
    "a node comes in a place that counts": (
        InterPodAffinity, near(term("zone", a="b")), node_came(node(labels={"zone": "east"})), YES,
    ),
    "a node comes in no such place": (InterPodAffinity, near(term("zone", a="b")), node_came(node()), NO),
    "any new node is away from those the pod avoids": (
        InterPodAffinity, apart(term("zone", a="b")), node_came(node()), YES,
    ),
    "a node moves": (
        InterPodAffinity, near(term("zone", a="b")),
        update(node(labels={"zone": "east"}), node(labels={"zone": "west"}), ActionType.NODE_LABEL, NODE), YES,
    ),
    "a node stays where it is": (
        InterPodAffinity, near(term("zone", a="b")),
        update(node(labels={"zone": "east"}), node(labels={"zone": "east", "x": "y"}), ActionType.NODE_LABEL, NODE), NO,
    ),
    "a node leaves a place that somebody avoided is in": (
        InterPodAffinity, apart(term("zone", a="b")),
        update(node(labels={"zone": "east"}), node(), ActionType.NODE_LABEL, NODE), YES,
    ),
    "one of the kind comes": (PodTopologySpread, spread("zone"), bind(pod("o", on="n1", labels={"app": "web"})), YES),
    "one of the kind goes": (PodTopologySpread, spread("zone"), ended(pod("o", on="n1", labels={"app": "web"})), YES),
    "one of another kind goes": (PodTopologySpread, spread("zone"), ended(pod("o", on="n1")), NO),
    "one of the kind goes in another namespace": (
        PodTopologySpread, spread("zone"),
        ended(pod("o", on="n1", labels={"app": "web"}, metadata={"namespace": "elsewhere"})), NO,
    ),
    "one becomes of the kind": (
        PodTopologySpread, spread("zone"),
        update(pod("o", on="n1"), pod("o", on="n1", labels={"app": "web"}), ActionType.POD_LABEL, ASSIGNED_POD), YES,
    ),
    "one's other labels change": (
        PodTopologySpread, spread("zone"),
        update(pod("o", on="n1"), pod("o", on="n1", labels={"x": "y"}), ActionType.POD_LABEL, ASSIGNED_POD), NO,
    ),
    "the pod itself leaves the kind": (
        PodTopologySpread, spread("zone"), itself(spread("zone"), pod(), ActionType.POD_LABEL), YES,
    ),
    "the pod tolerates more, where that counts": (
        PodTopologySpread, spread("zone", nodeTaintsPolicy="Honor"),
        itself(pod(), tolerating("a"), ActionType.POD_TOLERATION),
        YES,
    ),
    "the pod tolerates more, where that does not count": (
        PodTopologySpread, spread("zone"), itself(pod(), tolerating("a"), ActionType.POD_TOLERATION), NO,
    ),
    "a node comes that takes part": (
        PodTopologySpread, spread("zone"), node_came(node(labels={"zone": "east"})), YES,
    ),
    "a node comes that lacks one of the labels": (
        PodTopologySpread, spread("zone", "rack"), node_came(node(labels={"zone": "east"})), NO,
    ),
    "a node goes that took part": (
        PodTopologySpread, spread("zone"), delete(node(labels={"zone": "east"}), NODE), YES,
    ),
    "a node changes its place": (
        PodTopologySpread, spread("zone"),
        update(node(labels={"zone": "east"}), node(labels={"zone": "west"}), ActionType.NODE_LABEL, NODE), YES,
    ),
    "a node's other labels change": (
        PodTopologySpread, spread("zone"),
        update(node(labels={"zone": "east"}), node(labels={"zone": "east", "x": "y"}), ActionType.NODE_LABEL, NODE), NO,
    ),
    "a node that takes part has other taints": (
        PodTopologySpread, spread("zone"),
        update(
            node(labels={"zone": "east"}),
            node(labels={"zone": "east"}, spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}),
            ActionType.NODE_TAINT, NODE,
        ), YES,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("plugin", "refused", "change", "does"), OF_PODS.values(), ids=OF_PODS)
def test_queueing_hint_of_pod_events(plugin: type[Plugin], refused: Pod, change: ObjectChange, does: bool) -> None:
    assert helps(plugin, refused, change) is does
