# SPDX-License-Identifier: Apache-2.0
"""Builds and classifies the pods of a DaemonSet. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from kubeloop.api.generated.apps_v1 import DaemonSet
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.pods.pod import is_available, is_terminal
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.daemonset.nodes import Eligibility, NodeShouldRun, pin_to_node, target_node_of, tolerations_of
from kubeloop.controllers.shared.ownership.controller_revisions import POD_REVISION_LABEL
from kubeloop.controllers.shared.pods.pod_control import pod_from_template

GENERATION_ANNOTATION: Final = "deprecated.daemonset.template.generation"
GENERATION_LABEL: Final = "pod-template-generation"

_SETS: Final = resource_of_class(DaemonSet)


@dataclass(frozen=True, slots=True)
class DaemonSetView:
    """State of a set in one sync: its nodes, and its pods by node."""

    daemon_set: DaemonSet
    nodes: dict[str, NodeShouldRun]
    pods: dict[str, list[Pod]]  # by their target node, the scheduled and oldest first
    hash: str  # of the current revision
    generation: int | None  # of the template; pods created before hashes carry it instead
    now: datetime

    def should_run_on(self, node: str) -> bool:
        """Return True if a pod should run on the node; False for a node that is gone."""
        verdict = self.nodes.get(node)
        return verdict is not None and verdict.should_run

    def is_available(self, pod: Pod) -> bool:
        """Return True if the pod is available."""
        return is_available(pod, self.daemon_set.spec.min_ready_seconds, self.now)

    def is_updated(self, pod: Pod) -> bool:
        """Return True if the pod is of the current template."""
        return is_updated(pod, self.hash, self.generation)


def view_of(
    daemon_set: DaemonSet, nodes: Iterable[Node], pods: Iterable[Pod], hash: str, now: datetime
) -> DaemonSetView:
    """Build the view of a set from its nodes and pods."""
    eligibility = Eligibility.of(daemon_set)
    verdicts = {node.metadata.name: eligibility.evaluate(node) for node in nodes}
    return DaemonSetView(daemon_set, verdicts, by_node(pods), hash, template_generation(daemon_set), now)


def by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Group pods by target node, without those that have ended and are being deleted."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        if is_terminal(pod) and pod.metadata.deletion_timestamp is not None:
            continue
        if node := target_node_of(pod):
            found.setdefault(node, []).append(pod)
    for there in found.values():
        if len(there) > 1:
            there.sort(key=pod_sort_key)
    return found


def pod_sort_key(pod: Pod) -> tuple[Any, ...]:
    """Return a sort key that puts scheduled pods first, then the older ones, then by name."""
    return (not pod.spec.node_name, str(pod.metadata.creation_timestamp or ""), pod.metadata.name)


def new_pod(daemon_set: DaemonSet, node: str, hash: str) -> Pod:
    """Build the pod for a node; its affinity lets the scheduler choose no other."""
    pod = pod_from_template(daemon_set.spec.template, daemon_set, _SETS)
    labels = {**pod.metadata.labels, POD_REVISION_LABEL: hash}
    generation = template_generation(daemon_set)
    if generation is not None:
        labels[GENERATION_LABEL] = str(generation)
    spec = replace(pod.spec, tolerations=tolerations_of(pod.spec), affinity=pin_to_node(pod.spec.affinity, node))
    return replace(pod, metadata=replace(pod.metadata, labels=labels), spec=spec)


def template_generation(daemon_set: DaemonSet) -> int | None:
    """Return the deprecated template generation; None if it is missing or invalid."""
    said = daemon_set.metadata.annotations.get(GENERATION_ANNOTATION)
    try:
        return None if said is None else int(said)
    except ValueError:
        return None


def is_updated(pod: Pod, hash: str, generation: int | None) -> bool:
    """Return True if the pod is of the current template."""
    labels = pod.metadata.labels
    if hash and labels.get(POD_REVISION_LABEL) == hash:
        return True
    return generation is not None and labels.get(GENERATION_LABEL) == str(generation)
