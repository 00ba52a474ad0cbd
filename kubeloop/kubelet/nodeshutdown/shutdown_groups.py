# SPDX-License-Identifier: Apache-2.0
"""Groups of pods that are terminated one after another at a node shutdown, with their grace periods. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kubeloop.api.features.gates import Features
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.kubelet.config.configuration_parts import ShutdownGracePeriodByPodPriority
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration
from kubeloop.kubelet.eviction.eviction_rank import CRITICAL_PRIORITY
from kubeloop.kubelet.sync.pod_state import TerminationReason

BY_PRIORITY_GATE = "GracefulNodeShutdownBasedOnPodPriority"
_REASON, _MESSAGE = "Terminated", "Pod was terminated in response to imminent node shutdown."


class ShutdownGroup(NamedTuple):
    """Pods of one range of priorities, and the time that they have to end."""

    priority: int
    seconds: int
    pods: tuple[Pod, ...] = ()


def shutdown_groups(settings: KubeletConfiguration, features: Features) -> tuple[ShutdownGroup, ...]:
    """Return the groups of a configuration without pods, lowest priority first; none if shutdowns are not graceful."""
    if not features.is_enabled("GracefulNodeShutdown"):
        return ()
    periods: Sequence[ShutdownGracePeriodByPodPriority] = settings.shutdown_grace_period_by_pod_priority
    if periods and features.is_enabled(BY_PRIORITY_GATE):
        groups = [ShutdownGroup(one.priority, one.shutdown_grace_period_seconds) for one in periods]
        return tuple(sorted(groups, key=lambda one: one.priority))
    whole, critical = settings.shutdown_grace_period, settings.shutdown_grace_period_critical_pods
    if not whole or not 0 <= critical <= whole:
        return ()
    return ShutdownGroup(0, int(whole - critical)), ShutdownGroup(CRITICAL_PRIORITY, int(critical))


def group_pods(groups: Sequence[ShutdownGroup], pods: Iterable[Pod]) -> list[ShutdownGroup]:
    """Return the groups with pods: each in the highest group that is not above it, else in the lowest."""
    priorities = [one.priority for one in groups]
    found: list[list[Pod]] = [[] for _ in groups]
    for pod in pods:
        found[max(bisect_right(priorities, pod.spec.priority or 0) - 1, 0)].append(pod)
    return [group._replace(pods=tuple(members)) for group, members in zip(groups, found, strict=True) if members]


def termination_reason_of(pod: Pod, group: ShutdownGroup) -> TerminationReason:
    """Return the reason of a pod's termination, with the shorter of its own grace period and that of its group."""
    own = pod.spec.termination_grace_period_seconds
    grace = group.seconds if own is None else min(own, group.seconds)
    return TerminationReason(_REASON, _MESSAGE, disruption="TerminationByKubelet", grace_period_seconds=float(grace))
