# SPDX-License-Identifier: Apache-2.0
"""Decides on which nodes a DaemonSet's pods may run, and finds the target node of a pod. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from kubeloop.api.generated.apps_v1 import DaemonSet
from kubeloop.api.generated.core_v1 import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Toleration,
)
from kubeloop.api.pods.placement import first_untolerated, node_affinity_matches

NODE_NAME_FIELD: Final = "metadata.name"

# Tolerations that every daemon pod has, since it must run regardless of its node's condition.
_ALWAYS: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_ON_HOST_NETWORK: Final = (("node.kubernetes.io/network-unavailable", "NoSchedule"),)


@dataclass(frozen=True, slots=True)
class NodeShouldRun:
    """Result for one node: if a pod should run there, and if an existing one may continue."""

    should_run: bool
    should_continue_running: bool


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Node requirements of a set, computed once for many nodes."""

    spec: PodSpec
    tolerations: Sequence[Toleration]

    @classmethod
    def of(cls, daemon_set: DaemonSet) -> Eligibility:
        """Build the requirements of a set."""
        spec = daemon_set.spec.template.spec
        return cls(spec, tolerations_of(spec))

    def evaluate(self, node: Node) -> NodeShouldRun:
        """Evaluate one node."""
        if self.spec.node_name and self.spec.node_name != node.metadata.name:
            return NodeShouldRun(False, False)
        if not node_affinity_matches(self.spec, node):
            return NodeShouldRun(False, False)
        taints = node.spec.taints
        if not taints or first_untolerated(taints, self.tolerations, ("NoSchedule", "NoExecute")) is None:
            return NodeShouldRun(True, True)
        return NodeShouldRun(False, first_untolerated(taints, self.tolerations, ("NoExecute",)) is None)


def tolerations_of(spec: PodSpec) -> tuple[Toleration, ...]:
    """Return the template's tolerations and those that every daemon pod has."""
    tolerations = spec.tolerations
    for key, effect in _ALWAYS + (_ON_HOST_NETWORK if spec.host_network else ()):
        tolerations = _add_or_replace_toleration(tolerations, Toleration(key=key, operator="Exists", effect=effect))
    return tolerations


def _add_or_replace_toleration(tolerations: tuple[Toleration, ...], wanted: Toleration) -> tuple[Toleration, ...]:
    """Replace a toleration of the same taint that is limited in time; otherwise append."""
    known = [one for one in tolerations if replace(one, toleration_seconds=None) == wanted]
    if not known:
        return (*tolerations, wanted)
    return tuple(wanted if one in known else one for one in tolerations)


# The node of a pod.


def pin_to_node(affinity: Affinity | None, node: str) -> Affinity:
    """Return an affinity that admits only this node; it already satisfies the other node requirements."""
    only = NodeSelectorRequirement(key=NODE_NAME_FIELD, operator="In", values=(node,))
    selector = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(only,)),))
    affinity = affinity or Affinity()
    nodes = affinity.node_affinity or NodeAffinity()
    return replace(affinity, node_affinity=replace(nodes, required_during_scheduling_ignored_during_execution=selector))


def target_node_of(pod: Pod) -> str:
    """Return the node that a pod runs on or is restricted to; empty if there is none."""
    if pod.spec.node_name:
        return pod.spec.node_name
    nodes = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    selector = nodes.required_during_scheduling_ignored_during_execution if nodes is not None else None
    for term in (selector.node_selector_terms or ()) if selector is not None else ():
        for field in term.match_fields:
            if field.key == NODE_NAME_FIELD and field.operator == "In":
                return field.values[0] if len(field.values) == 1 else ""
    return ""
