"""Why a pod has no node, node by node: what every plugin says, not only the first, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from kubeloop.api.placement import first_untolerated
from kubeloop.scheduler.amounts import CPU
from kubeloop.scheduler.cluster import ClusterState
from kubeloop.scheduler.framework import Plugin, Skip, implements
from kubeloop.scheduler.outcome import Narrowed, Refusal
from kubeloop.scheduler.pod_info import PodInfo
from kubeloop.scheduler.profile import Profile
from kubeloop.scheduler.taint_numbers import HARD


class Objection(msgspec.Struct, frozen=True):
    """One plugin's reasons against a node; an empty node stands for all of them."""

    node: str
    plugin: str
    reasons: tuple[str, ...]
    advice: str = ""


def explain(profile: Profile, cluster: ClusterState, pod: PodInfo) -> tuple[Objection, ...]:
    """All objections, by node; a node that is not named would do."""
    held = [_held(plugin, pod) for plugin in profile.gates]
    found = [one for one in held if one is not None]
    for plugin in profile.filters:
        found += _objections(plugin, cluster, pod)
    return tuple(sorted(found, key=lambda one: one.node))


def _held(plugin: Plugin, pod: PodInfo) -> Objection | None:
    refusal = plugin.pre_enqueue(pod)
    if refusal is None:
        return None
    return Objection("", plugin.name, refusal.reasons, "remove the pod's scheduling gates")


def _objections(plugin: Plugin, cluster: ClusterState, pod: PodInfo) -> list[Objection]:
    state = plugin.prefilter(pod, cluster)
    if isinstance(state, Refusal):
        return [Objection("", plugin.name, state.reasons, _GENERAL.get(plugin.name, ""))]
    if isinstance(state, Skip) or not implements(type(plugin), "filter"):
        return []
    state = state.state if isinstance(state, Narrowed) else state
    rows = cluster.rows_alive()
    answers = plugin.filter(state, cluster, rows)
    return [
        Objection(
            cluster.name_of(row), plugin.name, plugin.refusal(state, number).reasons, advice(plugin, cluster, pod, row)
        )
        for row, number in zip(rows.tolist(), answers.tolist(), strict=True)
        if number
    ]


def advice(plugin: Plugin, cluster: ClusterState, pod: PodInfo, row: int) -> str:
    """What would make a node do, as far as that can be said in a line."""
    node = cluster.nodes[row]
    match plugin.name:
        case "NodeResourcesFit":
            return _shortage(cluster, pod, row)
        case "TaintToleration":
            taint = first_untolerated(node.spec.taints, pod.pod.spec.tolerations, HARD)
            return "" if taint is None else f"tolerate {taint.key}={taint.value}:{taint.effect}, or remove the taint"
        case "NodeUnschedulable":
            return f"kubectl uncordon {node.metadata.name}"
        case "NodeName":
            return f"the pod names the node {pod.node_name}"
        case "NodeAffinity":
            return _missing_labels(pod, node.metadata.labels)
        case other:
            return _GENERAL.get(other, "")


def _shortage(cluster: ClusterState, pod: PodInfo, row: int) -> str:
    told = []
    if cluster.pod_count[row] >= cluster.allowed_pods[row]:
        told.append(f"{cluster.allowed_pods[row]} pods are the most it takes")
    for name, amount in pod.requests.items():
        have = int(cluster.amount(cluster.allocatable, name)[row])
        free = have - int(cluster.amount(cluster.requested, name)[row])
        if amount > free:
            unit = "m" if name == CPU else ""
            told.append(f"{name}: {amount}{unit} requested, {free}{unit} free of {have}{unit}")
    return "; ".join(told)


def _missing_labels(pod: PodInfo, labels: Any) -> str:
    wanted = [f"{key}={value}" for key, value in pod.pod.spec.node_selector.items() if labels.get(key) != value]
    return f"label it {', '.join(wanted)}" if wanted else "its labels do not match the pod's required node affinity"


_GENERAL = {
    "NodePorts": "another pod there has the host port",
    "InterPodAffinity": "pods that must be near, or must not be, decide here",
    "PodTopologySpread": "more pods of the kind would be here than maxSkew allows",
    "VolumeBinding": "its volumes are not, and cannot be made, where this node is",
    "VolumeZone": "its volumes are in another zone",
    "VolumeRestrictions": "another pod uses the volume",
    "NodeVolumeLimits": "too many volumes are attached already",
}


def fitting(cluster: ClusterState, objections: Sequence[Objection]) -> list[str]:
    """Nodes that nobody objects to."""
    if any(not one.node for one in objections):
        return []
    refused = {one.node for one in objections}
    names = [cluster.name_of(int(row)) for row in np.flatnonzero(cluster.alive)]
    return sorted(name for name in names if name not in refused)
