# SPDX-License-Identifier: Apache-2.0
"""Decides which daemon pods to create and which to delete, one per eligible node. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kubeloop.api.generated.apps_v1 import DaemonSet
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import is_ready
from kubeloop.api.scalars.intstr import IntOrStringError, scaled_value
from kubeloop.controllers.daemonset.pods import DaemonSetView
from kubeloop.controllers.shared.ownership.controller_revisions import POD_REVISION_LABEL


@dataclass(slots=True)
class PodChanges:
    """Changes to make for a set."""

    create_on: list[str] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)
    failed: list[tuple[str, Pod]] = field(default_factory=list)  # to be deleted as well, with backoff: (node, pod)
    succeeded: list[tuple[str, Pod]] = field(default_factory=list)  # to be deleted as well


def decide(view: DaemonSetView) -> PodChanges:
    """Decide which pods are missing and which are surplus."""
    changes = PodChanges()
    surging = allows_surge(view.daemon_set)
    for name, verdict in view.nodes.items():
        pods = view.pods.get(name)
        if pods is None:
            if verdict.should_run:
                changes.create_on.append(name)
        elif not verdict.should_continue_running:
            changes.delete += [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        else:
            running = _without_ended(name, pods, changes)
            if surging and not running and verdict.should_run:
                changes.create_on.append(name)
            changes.delete += _surplus_while_surging(view, running) if surging else running[1:]
    changes.delete += _unscheduled_without_node(view)
    return changes


def _without_ended(node: str, pods: Sequence[Pod], changes: PodChanges) -> list[Pod]:
    """Return the pods that stay, and record the terminal ones in `changes`."""
    running = []
    for pod in pods:
        if pod.metadata.deletion_timestamp is not None:
            continue
        if pod.status.phase == "Failed":
            changes.failed.append((node, pod))
        elif pod.status.phase == "Succeeded":
            changes.succeeded.append((node, pod))
        else:
            running.append(pod)
    return running


def _surplus_while_surging(view: DaemonSetView, running: Sequence[Pod]) -> list[Pod]:
    """Return all but the oldest new pod; also the oldest old pod once it is unready or the new one is available."""
    new = [pod for pod in running if pod.metadata.labels.get(POD_REVISION_LABEL) == view.hash]
    old = [pod for pod in running if pod not in new]
    surplus = new[1:] + old[1:]
    if new and old and (not is_ready(old[0]) or view.is_available(new[0])):
        surplus.append(old[0])
    return surplus


def _unscheduled_without_node(view: DaemonSetView) -> list[Pod]:
    """Return unscheduled pods whose target node is gone."""
    lost = (pods for node, pods in view.pods.items() if node not in view.nodes)
    return [pod for pods in lost for pod in pods if not pod.spec.node_name]


def allows_surge(daemon_set: DaemonSet) -> bool:
    """Return True if an update may temporarily run two pods on a node."""
    try:
        return surge_count(daemon_set, 1) > 0
    except IntOrStringError:
        return False


def surge_count(daemon_set: DaemonSet, nodes: int) -> int:
    """Return maxSurge, resolved for this number of nodes."""
    strategy = daemon_set.spec.update_strategy
    rolling = strategy.rolling_update
    if strategy.type != "RollingUpdate" or rolling is None or rolling.max_surge is None:
        return 0
    return scaled_value(rolling.max_surge, nodes, round_up=True)
