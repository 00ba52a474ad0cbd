# SPDX-License-Identifier: Apache-2.0
"""Explains why a pod has no node: the rejections of all plugins for each node, not only the first, with advice."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from kubeloop.scheduler.cache.cluster import ClusterState
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.explain.claim_remedies import CLAIM_REMEDIES, advise_before_nodes
from kubeloop.scheduler.explain.remedies import NODE_REMEDIES, RejectionCase
from kubeloop.scheduler.framework.plugin import Plugin, Skip, implements
from kubeloop.scheduler.framework.profile import Profile
from kubeloop.scheduler.framework.status import PreFilterResult, Status


class NodeRejection(msgspec.Struct, frozen=True):
    """Reasons of one plugin against a node; an empty node name means all nodes."""

    node: str
    plugin: str
    reasons: tuple[str, ...]
    advice: str = ""


def explain(profile: Profile, cluster: ClusterState, pod: PodInfo) -> tuple[NodeRejection, ...]:
    """Return all rejections, ordered by node; a node that is not named is feasible."""
    held = [_gate_rejection(plugin, pod) for plugin in profile.pre_enqueue_plugins]
    found = [one for one in held if one is not None]
    for plugin in profile.filter_plugins:
        found += _objections(plugin, cluster, pod)
    return tuple(sorted(dict.fromkeys(found), key=lambda one: one.node))


def _gate_rejection(plugin: Plugin, pod: PodInfo) -> NodeRejection | None:
    refusal = plugin.pre_enqueue(pod)
    if refusal is None:
        return None
    return NodeRejection("", plugin.name, refusal.reasons, advise_before_nodes(plugin.name, refusal.message))


def _objections(plugin: Plugin, cluster: ClusterState, pod: PodInfo) -> list[NodeRejection]:
    state = plugin.pre_filter(pod, cluster)
    if isinstance(state, Status):
        return [NodeRejection("", plugin.name, state.reasons, advise_before_nodes(plugin.name, state.message))]
    if isinstance(state, Skip) or not implements(type(plugin), "filter"):
        return []
    state = state.state if isinstance(state, PreFilterResult) else state
    rows = cluster.rows_in_use()
    answers = plugin.filter(state, cluster, rows)
    found = []
    for row, number in zip(rows.tolist(), answers.tolist(), strict=True):
        if number:
            case = RejectionCase(plugin, plugin.filter_status(state, number), pod, cluster, row, state)
            found.append(NodeRejection(cluster.name_of(row), plugin.name, case.refusal.reasons, advise(case)))
    return found


def advise(case: RejectionCase) -> str:
    """Return what would make a node feasible, in one line; plugins without built-in advice supply their own."""
    remedy = _REMEDIES.get(case.plugin.name)
    return case.plugin.describe_remedy(case.pod, case.node) if remedy is None else remedy(case)


_REMEDIES = {**NODE_REMEDIES, **CLAIM_REMEDIES}


def feasible_node_names(cluster: ClusterState, objections: Sequence[NodeRejection]) -> list[str]:
    """Return the names of the nodes without rejections."""
    if any(not one.node for one in objections):
        return []
    refused = {one.node for one in objections}
    names = [cluster.name_of(int(row)) for row in np.flatnonzero(cluster.in_use)]
    return sorted(name for name in names if name not in refused)
