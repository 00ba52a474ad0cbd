"""Explains why a pod has no node: the rejections of all plugins for each node, not only the first, with advice."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from kubeloop.scheduler.cache.cluster import ClusterState
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.explain.claim_remedies import OF_CLAIMS, before_any_node
from kubeloop.scheduler.explain.remedies import OF_NODES, Case
from kubeloop.scheduler.framework.plugin import Plugin, Skip, implements
from kubeloop.scheduler.framework.profile import Profile
from kubeloop.scheduler.framework.status import Narrowed, Refusal


class Objection(msgspec.Struct, frozen=True):
    """Reasons of one plugin against a node; an empty node name means all nodes."""

    node: str
    plugin: str
    reasons: tuple[str, ...]
    advice: str = ""


def explain(profile: Profile, cluster: ClusterState, pod: PodInfo) -> tuple[Objection, ...]:
    """Return all rejections, ordered by node; a node that is not named is feasible."""
    held = [_held(plugin, pod) for plugin in profile.gates]
    found = [one for one in held if one is not None]
    for plugin in profile.filters:
        found += _objections(plugin, cluster, pod)
    return tuple(sorted(dict.fromkeys(found), key=lambda one: one.node))


def _held(plugin: Plugin, pod: PodInfo) -> Objection | None:
    refusal = plugin.pre_enqueue(pod)
    if refusal is None:
        return None
    return Objection("", plugin.name, refusal.reasons, before_any_node(plugin.name, refusal.message))


def _objections(plugin: Plugin, cluster: ClusterState, pod: PodInfo) -> list[Objection]:
    state = plugin.prefilter(pod, cluster)
    if isinstance(state, Refusal):
        return [Objection("", plugin.name, state.reasons, before_any_node(plugin.name, state.message))]
    if isinstance(state, Skip) or not implements(type(plugin), "filter"):
        return []
    state = state.state if isinstance(state, Narrowed) else state
    rows = cluster.rows_alive()
    answers = plugin.filter(state, cluster, rows)
    found = []
    for row, number in zip(rows.tolist(), answers.tolist(), strict=True):
        if number:
            case = Case(plugin, plugin.refusal(state, number), pod, cluster, row, state)
            found.append(Objection(cluster.name_of(row), plugin.name, case.refusal.reasons, advice(case)))
    return found


def advice(case: Case) -> str:
    """Return what would make a node feasible, in one line; plugins without built-in advice supply their own."""
    remedy = _REMEDIES.get(case.plugin.name)
    return case.plugin.remedy(case.pod, case.node) if remedy is None else remedy(case)


_REMEDIES = {**OF_NODES, **OF_CLAIMS}


def fitting(cluster: ClusterState, objections: Sequence[Objection]) -> list[str]:
    """Return the names of the nodes without rejections."""
    if any(not one.node for one in objections):
        return []
    refused = {one.node for one in objections}
    names = [cluster.name_of(int(row)) for row in np.flatnonzero(cluster.alive)]
    return sorted(name for name in names if name not in refused)
