# SPDX-License-Identifier: Apache-2.0
"""Chooses outdated pods to delete, or nodes for an additional new pod, within the strategy's limits. Pure.

Nodes with surplus pods are left to `manage`, and count against the limits meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.scalars.intstr import scaled_value
from kubeloop.controllers.daemonset.manage import PodChanges, surge_count
from kubeloop.controllers.daemonset.pods import DaemonSetView


class NodePods(NamedTuple):
    """The remaining pods of one node: at most one of the current template and one outdated."""

    new: Pod | None
    old: Pod | None


def decide(view: DaemonSetView) -> PodChanges:
    """Decide the changes of the update; empty once all pods are of the current template."""
    if all(view.is_updated(pod) for pods in view.pods.values() for pod in pods):
        return PodChanges()
    wanted = [name for name in view.nodes if view.should_run_on(name)]
    surge, unavailable = surge_count(view.daemon_set, len(wanted)), _unavailable_count(view, len(wanted))
    nodes = dict.fromkeys([*view.pods, *wanted])
    pairs = {name: _pair_on(view, name) for name in nodes}
    if surge == 0:
        return _replacing(view, pairs, unavailable or min(1, len(wanted)))  # an update without a limit would never end
    return _surging(view, pairs, surge, len(wanted))


def _unavailable_count(view: DaemonSetView, nodes: int) -> int:
    strategy = view.daemon_set.spec.update_strategy
    if strategy.type != "RollingUpdate" or strategy.rolling_update is None:
        return 0
    return scaled_value(strategy.rolling_update.max_unavailable, nodes, round_up=True)


def _pair_on(view: DaemonSetView, node: str) -> NodePods | None:
    """Return the remaining pods of a node; None if there are surplus ones."""
    staying = [pod for pod in view.pods.get(node, ()) if pod.metadata.deletion_timestamp is None]
    new = [pod for pod in staying if view.is_updated(pod)]
    old = [pod for pod in staying if not view.is_updated(pod)]
    if len(new) > 1 or len(old) > 1:
        return None
    return NodePods(new[0] if new else None, old[0] if old else None)


def _replacing(view: DaemonSetView, pairs: dict[str, NodePods | None], limit: int) -> PodChanges:
    """Delete outdated pods: unavailable ones at once, others while few enough nodes are unavailable."""
    idle: list[Pod] = []
    serving: list[Pod] = []
    unavailable = 0
    for pair in pairs.values():
        if pair is None or (pair.new is None) is (pair.old is None):
            unavailable += 1  # a change is already in progress
        elif pair.new is not None:
            unavailable += not view.is_available(pair.new)
        elif pair.old is not None and view.is_available(pair.old):
            serving.append(pair.old)
        elif pair.old is not None:
            idle.append(pair.old)
            unavailable += 1
    return PodChanges(delete=idle + serving[: max(0, limit - unavailable)])


def _surging(view: DaemonSetView, pairs: dict[str, NodePods | None], limit: int, wanted: int) -> PodChanges:
    """Create new pods beside old ones: at once where the old one is unavailable, else up to the limit."""
    changes = PodChanges()
    candidates: list[str] = []
    misplaced: list[Pod] = []
    surged = sum(pair is None for pair in pairs.values())
    for name, new, old in _with_old(pairs):
        serves = view.is_available(old)
        if new is not None and not view.is_available(new):
            surged += 1
        elif new is not None or (not serves and not view.should_run_on(name)):
            changes.delete.append(old)
        elif not view.should_run_on(name):
            misplaced.append(old)
        else:
            (candidates if serves else changes.create_on).append(name)
    available = sum(_serves(view, pair) for pair in pairs.values() if pair is not None)
    # A surging update avoids gaps: a pod on a node that is no longer eligible stays until another one is available.
    changes.delete += misplaced[: max(0, available - wanted)]
    changes.create_on += candidates[: max(0, limit - surged)]
    return changes


def _with_old(pairs: dict[str, NodePods | None]) -> Iterator[tuple[str, Pod | None, Pod]]:
    """Return the nodes with an outdated pod: their names, new and old pods."""
    for name, pair in pairs.items():
        if pair is not None and pair.old is not None:
            yield name, pair.new, pair.old


def _serves(view: DaemonSetView, pair: NodePods) -> bool:
    pod = pair.old or pair.new
    return pod is not None and view.is_available(pod)
