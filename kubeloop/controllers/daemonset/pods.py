"""What a DaemonSet's pods look like: made for one node, and told apart by the template that they come from. Pure."""

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
from kubeloop.controllers.daemonset.nodes import Eligibility, Verdict, bound_to, target_node_of, tolerations_of
from kubeloop.controllers.shared.ownership.controller_revisions import POD_REVISION_LABEL
from kubeloop.controllers.shared.pods.pod_control import pod_from_template

GENERATION_ANNOTATION: Final = "deprecated.daemonset.template.generation"
GENERATION_LABEL: Final = "pod-template-generation"

_SETS: Final = resource_of_class(DaemonSet)


@dataclass(frozen=True, slots=True)
class View:
    """One look at a set: its nodes, and its pods on each of them."""

    daemon_set: DaemonSet
    nodes: dict[str, Verdict]
    pods: dict[str, list[Pod]]  # by the node that they are on or meant for, the most established first
    hash: str  # of the template's revision
    generation: int | None  # of the template, as older pods have it instead
    now: datetime

    def is_wanted(self, node: str) -> bool:
        """Whether a pod shall run on a node; a node that is gone wants none."""
        verdict = self.nodes.get(node)
        return verdict is not None and verdict.wanted

    def is_available(self, pod: Pod) -> bool:
        return is_available(pod, self.daemon_set.spec.min_ready_seconds, self.now)

    def is_updated(self, pod: Pod) -> bool:
        return is_updated(pod, self.hash, self.generation)


def view_of(daemon_set: DaemonSet, nodes: Iterable[Node], pods: Iterable[Pod], hash: str, now: datetime) -> View:
    eligibility = Eligibility.of(daemon_set)
    verdicts = {node.metadata.name: eligibility.verdict(node) for node in nodes}
    return View(daemon_set, verdicts, by_node(pods), hash, template_generation(daemon_set), now)


def by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Pods by their nodes. Those that have ended and are being deleted are somebody else's to finish."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        if is_terminal(pod) and pod.metadata.deletion_timestamp is not None:
            continue
        if node := target_node_of(pod):
            found.setdefault(node, []).append(pod)
    for there in found.values():
        if len(there) > 1:
            there.sort(key=establishment)
    return found


def establishment(pod: Pod) -> tuple[Any, ...]:
    """Sorts those that are on their node before those that are not, then by age and name."""
    return (not pod.spec.node_name, str(pod.metadata.creation_timestamp or ""), pod.metadata.name)


def new_pod(daemon_set: DaemonSet, node: str, hash: str) -> Pod:
    """The pod of a node, which the scheduler can put nowhere else."""
    pod = pod_from_template(daemon_set.spec.template, daemon_set, _SETS)
    labels = {**pod.metadata.labels, POD_REVISION_LABEL: hash}
    generation = template_generation(daemon_set)
    if generation is not None:
        labels[GENERATION_LABEL] = str(generation)
    spec = replace(pod.spec, tolerations=tolerations_of(pod.spec), affinity=bound_to(pod.spec.affinity, node))
    return replace(pod, metadata=replace(pod.metadata, labels=labels), spec=spec)


def template_generation(daemon_set: DaemonSet) -> int | None:
    """The number that templates had before there were hashes; None if there is none, or none that can be read."""
    said = daemon_set.metadata.annotations.get(GENERATION_ANNOTATION)
    try:
        return None if said is None else int(said)
    except ValueError:
        return None


def is_updated(pod: Pod, hash: str, generation: int | None) -> bool:
    """Whether a pod comes from the present template."""
    labels = pod.metadata.labels
    if hash and labels.get(POD_REVISION_LABEL) == hash:
        return True
    return generation is not None and labels.get(GENERATION_LABEL) == str(generation)
