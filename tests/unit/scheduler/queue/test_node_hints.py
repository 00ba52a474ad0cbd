# SPDX-License-Identifier: Apache-2.0
"""Tests of queueing hints for changes of nodes and of the pod itself."""

from __future__ import annotations

import pytest

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.scheduler.framework.plugin import Plugin
from kubeloop.scheduler.plugins.default_preemption import DefaultPreemption
from kubeloop.scheduler.plugins.node_resources_fit import NodeResourcesFit
from kubeloop.scheduler.plugins.nodes.node_affinity import NodeAffinity
from kubeloop.scheduler.plugins.nodes.node_declared_features import NodeDeclaredFeatures
from kubeloop.scheduler.plugins.nodes.node_name import NodeName
from kubeloop.scheduler.plugins.nodes.node_ports import NodePorts
from kubeloop.scheduler.plugins.nodes.node_unschedulable import NodeUnschedulable
from kubeloop.scheduler.plugins.nodes.taint_toleration import TaintToleration
from kubeloop.scheduler.plugins.scheduling_gates import SchedulingGates
from kubeloop.scheduler.queue.cluster_event import ASSIGNED_POD, NODE, ActionType
from tests.unit.scheduler.queue.hint_cases import (
    NO,
    YES,
    ObjectChange,
    Row,
    add,
    asking,
    cordoned,
    device_class,
    ended,
    helps,
    itself,
    node,
    node_came,
    pod,
    roomy,
    tainted,
    tolerating,
    update,
)

OF_NODES: dict[str, Row] = {
    "room comes": (NodeResourcesFit, asking("2"), node_came(roomy("2")), YES),
    "too little room comes": (NodeResourcesFit, asking("2"), node_came(roomy("1")), NO),
    "a node that takes no pods comes": (
        NodeResourcesFit,
        asking("1"),
        node_came(node(status={"allocatable": {"cpu": "4", "pods": "0"}})),
        NO,
    ),
    "what is wanted grows": (
        NodeResourcesFit,
        asking("2"),
        update(roomy("1"), roomy("2"), ActionType.NODE_ALLOCATABLE, NODE),
        YES,
    ),
    "what is not wanted grows": (
        NodeResourcesFit,
        asking("2"),
        update(roomy("2", memory="1Gi"), roomy("2", memory="2Gi"), ActionType.NODE_ALLOCATABLE, NODE),
        NO,
    ),
    "more pods are allowed": (
        NodeResourcesFit,
        asking("2"),
        update(node(status={"allocatable": {"cpu": "2", "pods": "1"}}), roomy("2"), ActionType.NODE_ALLOCATABLE, NODE),
        YES,
    ),
    "another pod ends": (NodeResourcesFit, asking("2"), ended(pod("other", on="n1")), YES),
    "a pod ends that had no place": (NodeResourcesFit, asking("2"), ended(pod("other")), NO),
    "a pod goes that others made room for": (
        NodeResourcesFit,
        asking("2"),
        ended(pod("other", status={"nominatedNodeName": "n1"})),
        YES,
    ),
    "another pod wants less of the same": (
        NodeResourcesFit,
        asking("2"),
        update(asking("2", "o", "n1"), asking("1", "o", "n1"), ActionType.POD_SCALE_DOWN, ASSIGNED_POD),
        YES,
    ),
    "another pod wants less of something else": (
        NodeResourcesFit,
        asking("2"),
        update(asking("2", "o", "n1", memory="2Gi"), asking("2", "o", "n1"), ActionType.POD_SCALE_DOWN, ASSIGNED_POD),
        NO,
    ),
    "the pod itself wants less": (
        NodeResourcesFit,
        asking("1"),
        itself(asking("2"), asking("1"), ActionType.POD_SCALE_DOWN),
        YES,
    ),
    "the pod itself wants more": (
        NodeResourcesFit,
        asking("2"),
        itself(asking("1"), asking("2"), ActionType.POD_SCALE_UP),
        NO,
    ),
    "a class comes that stands for what is wanted": (
        NodeResourcesFit,
        pod(containers=[{"name": "c", "resources": {"requests": {"x.io/gpu": "1"}}}]),
        add(device_class("gpu", "x.io/gpu")),
        YES,
    ),
    "a class comes that stands for something else": (
        NodeResourcesFit,
        asking("1"),
        add(device_class("gpu", "x.io/gpu")),
        NO,
    ),
    "a class is asked for by its own name": (
        NodeResourcesFit,
        pod(containers=[{"name": "c", "resources": {"requests": {"deviceclass.resource.kubernetes.io/gpu": "1"}}}]),
        add(device_class("gpu")),
        YES,
    ),
    "a class stands for the same as before": (
        NodeResourcesFit,
        pod(containers=[{"name": "c", "resources": {"requests": {"x.io/gpu": "1"}}}]),
        update(device_class("gpu", "x.io/gpu"), device_class("gpu", "x.io/gpu")),
        NO,
    ),
    "the node that is meant comes": (
        NodeAffinity,
        pod(nodeSelector={"a": "b"}),
        node_came(node(labels={"a": "b"})),
        YES,
    ),
    "another node comes": (NodeAffinity, pod(nodeSelector={"a": "b"}), node_came(node()), NO),
    "a node becomes the one that is meant": (
        NodeAffinity,
        pod(nodeSelector={"a": "b"}),
        update(node(), node(labels={"a": "b"}), ActionType.NODE_LABEL, NODE),
        YES,
    ),
    "a node was meant already": (
        NodeAffinity,
        pod(nodeSelector={"a": "b"}),
        update(node(labels={"a": "b"}), node(labels={"a": "b", "c": "d"}), ActionType.NODE_LABEL, NODE),
        NO,
    ),
    "any node may be the one that is named": (NodeName, pod(), node_came(node()), YES),
    "a node has no taints any more that matter": (
        TaintToleration,
        tolerating("a"),
        update(tainted("a", "b"), tainted("a"), ActionType.NODE_TAINT, NODE),
        YES,
    ),
    "a node still has a taint that matters": (
        TaintToleration,
        tolerating("a"),
        update(tainted("b", "c"), tainted("b"), ActionType.NODE_TAINT, NODE),
        NO,
    ),
    "a node had no taints that matter before": (
        TaintToleration,
        tolerating("a"),
        update(tainted("a"), tainted(), ActionType.NODE_TAINT, NODE),
        NO,
    ),
    "a node without taints comes": (TaintToleration, pod(), node_came(tainted()), YES),
    "a tainted node comes": (TaintToleration, pod(), node_came(tainted("a")), NO),
    "the pod tolerates something new": (
        TaintToleration,
        tolerating("z"),
        itself(pod(), tolerating("z"), ActionType.POD_TOLERATION),
        YES,
    ),
    "a node is uncordoned": (
        NodeUnschedulable,
        pod(),
        update(cordoned(YES), cordoned(NO), ActionType.NODE_TAINT, NODE),
        YES,
    ),
    "a node is cordoned": (
        NodeUnschedulable,
        pod(),
        update(cordoned(NO), cordoned(YES), ActionType.NODE_TAINT, NODE),
        NO,
    ),
    "a cordoned node comes": (NodeUnschedulable, pod(), node_came(cordoned(YES)), NO),
    "an open node comes": (NodeUnschedulable, pod(), node_came(cordoned(NO)), YES),
    "the pod comes to tolerate cordons": (
        NodeUnschedulable,
        pod(),
        itself(pod(), tolerating("node.kubernetes.io/unschedulable"), ActionType.POD_TOLERATION),
        YES,
    ),
    "the pod comes to tolerate something else": (
        NodeUnschedulable,
        pod(),
        itself(pod(), tolerating("z"), ActionType.POD_TOLERATION),
        NO,
    ),
    "a node comes with all ports free": (NodePorts, pod(), node_came(node()), YES),
    "a node declares something": (
        NodeDeclaredFeatures,
        pod(),
        update(node(), node(status={"declaredFeatures": ["A"]}), ActionType.NODE_DECLARED_FEATURE, NODE),
        YES,
    ),
    "a node declares what it did before": (
        NodeDeclaredFeatures,
        pod(),
        update(node(), node(), ActionType.NODE_DECLARED_FEATURE, NODE),
        NO,
    ),
    "the pod needs the same as before": (
        NodeDeclaredFeatures,
        pod(),
        itself(pod(), pod(labels={"a": "b"}), ActionType.POD_LABEL),
        NO,
    ),
    "the last gate is gone": (
        SchedulingGates,
        pod(),
        itself(pod(), pod(), ActionType.POD_SCHEDULING_GATES_ELIMINATED),
        YES,
    ),
    "a pod's end is for others to judge": (DefaultPreemption, pod(), ended(pod("other", on="n1")), NO),
}


@pytest.mark.parametrize(("plugin", "refused", "change", "does"), OF_NODES.values(), ids=OF_NODES)
def test_queueing_hint_of_node_events(plugin: type[Plugin], refused: Pod, change: ObjectChange, does: bool) -> None:
    assert helps(plugin, refused, change) is does


def test_nodes_excluded_by_the_profile_do_not_queue() -> None:
    matching = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "team", "operator": "Exists"}]}]}
    added = {"requiredDuringSchedulingIgnoredDuringExecution": matching}
    meant = pod(nodeSelector={"a": "b"})
    for labels, does in (({"a": "b"}, NO), ({"a": "b", "team": "x"}, YES)):
        assert helps(NodeAffinity, meant, node_came(node(labels=labels)), addedAffinity=added) is does
