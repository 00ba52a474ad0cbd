# SPDX-License-Identifier: Apache-2.0
"""Computes the number of replicas from metrics. Pure.

Pods that lack metrics or are not ready never amplify a change: for a scale-up they count as idle, for a scale-down as
busy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.api.pods.pod import is_ready, ready_condition
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.scalars.times import parse_time
from kubeloop.controllers.horizontal_pod_autoscaler.metrics_client import MetricsError, PodMetric

_MOST: Final = 2**31 - 1
_MOST_USED: Final = 2**63 - 1


class Tolerances(NamedTuple):
    """Tolerated deviations of the usage ratio."""

    down: float
    up: float

    def is_within(self, ratio: float) -> bool:
        """Return True if the ratio is within the tolerances."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class PodStartupDelays:
    """Periods after a pod's start in which its CPU usage is ignored."""

    initialization: timedelta  # period in which samples from before a pod was ready don't count
    readiness_delay: timedelta  # period in which an unready pod is assumed to have never been ready


class PodGroupsByUsability(NamedTuple):
    """Pods by the usability of their metrics."""

    ready: int
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


class ReplicaProposal(NamedTuple):
    """Number of replicas, and the usage that it results from."""

    replicas: int
    usage: int  # in thousandths; the average per pod for metrics of pods
    utilization: int | None = None  # in percent of the requests


def group_pods(
    pods: Iterable[Pod], metrics: Mapping[str, PodMetric], resource: str, patience: PodStartupDelays, now: datetime
) -> PodGroupsByUsability:
    """Group the pods by usability; only CPU usage is misleading for pods that just started."""
    ready, unready, missing, ignored = 0, set(), set(), set()
    for pod in pods:
        name = pod.metadata.name
        if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Failed":
            ignored.add(name)
        elif pod.status.phase == "Pending":
            unready.add(name)
        elif name not in metrics:
            missing.add(name)
        elif resource == "cpu" and _is_starting(pod, metrics[name], patience, now):
            unready.add(name)
        else:
            ready += 1
    return PodGroupsByUsability(ready, frozenset(unready), frozenset(missing), frozenset(ignored))


def _is_starting(pod: Pod, metric: PodMetric, patience: PodStartupDelays, now: datetime) -> bool:
    condition, start = ready_condition(pod), pod.status.start_time
    if condition is None or start is None:
        return True
    started = parse_time(start)
    changed = parse_time(condition.last_transition_time) if condition.last_transition_time else started
    if started + patience.initialization > now:
        return condition.status == "False" or metric.timestamp < changed + metric.window
    return condition.status == "False" and started + patience.readiness_delay > changed


def replicas_by_utilization(
    current: int, target: int, tolerances: Tolerances, counted: PodUsage, requests: Mapping[str, int]
) -> ReplicaProposal:
    """Compute the replicas from the usage in percent of the requests."""
    used = counted.usage_by_pod()
    ratio, utilization, average = _utilization(used, requests, target)
    fallback = max(100, target)
    busy = {name: requests[name] * fallback // 100 for name in counted.groups.missing}
    assumed = counted.with_assumptions(ratio, busy)
    second = None if assumed is None else (_utilization(assumed, requests, target)[0], len(assumed))
    return ReplicaProposal(_settled(current, ratio, counted.groups.ready, second, tolerances), average, utilization)


def replicas_by_average(current: int, target: int, tolerances: Tolerances, counted: PodUsage) -> ReplicaProposal:
    """Compute the replicas from the average usage per pod."""
    used = counted.usage_by_pod()
    ratio, average = _average(used, target)
    assumed = counted.with_assumptions(ratio, dict.fromkeys(counted.groups.missing, target))
    second = None if assumed is None else (_average(assumed, target)[0], len(assumed))
    return ReplicaProposal(_settled(current, ratio, counted.groups.ready, second, tolerances), average)


@dataclass(frozen=True, slots=True)
class PodUsage:
    """Metrics and the groups of pods that they belong to."""

    metrics: Mapping[str, PodMetric]
    groups: PodGroupsByUsability

    def usage_by_pod(self) -> dict[str, int]:
        """Return the usage of the pods that count; raises MetricsError if there are none."""
        left_out = self.groups.ignored | self.groups.unready
        used = {name: one.value for name, one in self.metrics.items() if name not in left_out}
        if not used:
            raise MetricsError("did not receive metrics for targeted pods (pods might be unready)")
        return used

    def with_assumptions(self, ratio: float, busy: Mapping[str, int]) -> dict[str, int] | None:
        """Return the usage with assumed values that dampen the change; None if nothing must be assumed."""
        groups = self.groups
        up_with_unready = bool(groups.unready) and ratio > 1.0
        if not up_with_unready and not groups.missing:
            return None
        assumed = self.usage_by_pod()
        if ratio < 1.0:
            assumed |= busy
        elif ratio > 1.0:
            assumed |= dict.fromkeys(groups.missing, 0)
        if up_with_unready:
            assumed |= dict.fromkeys(groups.unready, 0)
        return assumed


def _settled(current: int, ratio: float, ready: int, second: tuple[float, int] | None, tolerances: Tolerances) -> int:
    """Return the replicas by the usage ratio, or by the one with assumptions.

    If the assumptions reverse the direction, the size stays unchanged.
    """
    if second is None:
        return current if tolerances.is_within(ratio) else math.ceil(ratio * ready)
    assumed, count = second
    replicas = math.ceil(assumed * count)
    if tolerances.is_within(assumed) or _is_turned(ratio, assumed, replicas, current):
        return current
    return replicas


def _is_turned(ratio: float, assumed: float, replicas: int, current: int) -> bool:
    """Return True if the assumed usage reverses the direction of the change."""
    if (ratio < 1.0) != (assumed < 1.0) and 1.0 not in (ratio, assumed):
        return True
    return replicas > current if assumed < 1.0 else replicas < current


def _utilization(used: Mapping[str, int], requests: Mapping[str, int], target: int) -> tuple[float, int, int]:
    known = [name for name in used if name in requests]
    requested = sum(requests[name] for name in known)
    if requested == 0:
        raise MetricsError("no metrics returned matched known pods")
    total = sum(used[name] for name in known)
    utilization = total * 100 // requested
    return utilization / target, utilization, total // len(known)


def _average(used: Mapping[str, int], target: int) -> tuple[float, int]:
    average = sum(used.values()) // len(used)
    return average / target, average


def replicas_by_value(
    current: int, usage: int, target: int, tolerances: Tolerances, pods: Sequence[Pod]
) -> ReplicaProposal:
    """Compute the replicas from one value for all pods; from zero replicas, by the ratio alone."""
    usage = min(usage, _MOST_USED)
    ratio = usage / target
    if current == 0:
        return ReplicaProposal(min(math.ceil(ratio), _MOST), usage)
    if tolerances.is_within(ratio):
        return ReplicaProposal(current, usage)
    if not pods:
        why = "no pods returned by selector while calculating replica count"
        raise MetricsError(f"unable to calculate ready pods: {why}")
    ready = sum(pod.status.phase == "Running" and is_ready(pod) for pod in pods)
    return ReplicaProposal(min(math.ceil(ratio * ready), _MOST), usage)


def replicas_by_value_per_pod(present: int, usage: int, target: int, tolerances: Tolerances) -> ReplicaProposal:
    """Compute the replicas from one value that is divided among all pods."""
    usage = min(usage, _MOST_USED)
    wanted = min(math.ceil(usage / target), _MOST)
    if present == 0:
        return ReplicaProposal(wanted, usage)
    if tolerances.is_within(usage / (target * present)):
        wanted = present
    return ReplicaProposal(wanted, usage if usage == _MOST_USED else math.ceil(usage / present))


def requests_of(pods: Iterable[Pod], resource: str, container: str = "") -> dict[str, int]:
    """Return the requests by pod name: of one container, else of the pod level, else of all long-running containers."""
    return {pod.metadata.name: _request(pod, resource, container) for pod in pods}


def _request(pod: Pod, resource: str, container: str) -> int:
    said = pod.spec.resources
    if not container and said is not None and said.requests:
        if resource not in said.requests:
            raise MetricsError(f"missing pod-level request for {resource} in Pod {pod.metadata.name}")
        return parse_quantity(str(said.requests[resource])).milli_value()
    sidecars = [one for one in pod.spec.init_containers if one.restart_policy == "Always"]
    lasting: list[Container] = [*(pod.spec.containers or ()), *sidecars]
    counted = [one for one in lasting if container in ("", one.name)]
    if container and not counted:
        raise MetricsError(f"container {container} not found in Pod {pod.metadata.name}")
    return sum(_container_request(pod, one, resource) for one in counted)


def _container_request(pod: Pod, container: Container, resource: str) -> int:
    requests = container.resources.requests if container.resources is not None else {}
    if resource not in requests:
        where = f"container {container.name} of Pod {pod.metadata.name}"
        raise MetricsError(f"missing request for {resource} in {where}")
    return parse_quantity(str(requests[resource])).milli_value()
