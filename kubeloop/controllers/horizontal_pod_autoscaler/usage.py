"""How many pods the metrics ask for. Pure.

Pods whose metrics are missing, and pods that aren't ready yet, never make a change larger: where more pods are asked
for they count as idle, where fewer are asked for as busy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import is_ready, ready_condition
from kubeloop.api.scalars.times import parse_time
from kubeloop.controllers.horizontal_pod_autoscaler.metrics import MetricsError, PodMetric

_MOST: Final = 2**31 - 1
_MOST_USED: Final = 2**63 - 1


class Tolerances(NamedTuple):
    """How far use may be off the target before anything is done."""

    down: float
    up: float

    def hold(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class Patience:
    """With pods that have just started, whose CPU use says little."""

    initialization: timedelta  # in which samples from before a pod was ready don't count
    readiness_delay: timedelta  # within which being unready means never having been ready


class Groups(NamedTuple):
    """Pods by what their metrics are good for."""

    ready: int
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


class Proposal(NamedTuple):
    """A number of pods, and the use that it follows from."""

    replicas: int
    usage: int  # in thousandths, a pod's on average where it is about pods
    utilization: int | None = None  # in percent of what is requested


def group_pods(
    pods: Iterable[Pod], metrics: Mapping[str, PodMetric], resource: str, patience: Patience, now: datetime
) -> Groups:
    """Which pods count. Only CPU use tells lies about pods that have just started."""
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
    return Groups(ready, frozenset(unready), frozenset(missing), frozenset(ignored))


def _is_starting(pod: Pod, metric: PodMetric, patience: Patience, now: datetime) -> bool:
    condition, start = ready_condition(pod), pod.status.start_time
    if condition is None or start is None:
        return True
    started = parse_time(start)
    changed = parse_time(condition.last_transition_time) if condition.last_transition_time else started
    if started + patience.initialization > now:
        return condition.status == "False" or metric.timestamp < changed + metric.window
    return condition.status == "False" and started + patience.readiness_delay > changed


def by_utilization(
    current: int, target: int, tolerances: Tolerances, counted: Counted, requests: Mapping[str, int]
) -> Proposal:
    """By the use of a resource in percent of what is requested of it."""
    used = counted.used()
    ratio, utilization, average = _utilization(used, requests, target)
    fallback = max(100, target)
    busy = {name: requests[name] * fallback // 100 for name in counted.groups.missing}
    assumed = counted.with_assumptions(ratio, busy)
    second = None if assumed is None else (_utilization(assumed, requests, target)[0], len(assumed))
    return Proposal(_settled(current, ratio, counted.groups.ready, second, tolerances), average, utilization)


def by_average(current: int, target: int, tolerances: Tolerances, counted: Counted) -> Proposal:
    """By what a pod uses on average."""
    used = counted.used()
    ratio, average = _average(used, target)
    assumed = counted.with_assumptions(ratio, dict.fromkeys(counted.groups.missing, target))
    second = None if assumed is None else (_average(assumed, target)[0], len(assumed))
    return Proposal(_settled(current, ratio, counted.groups.ready, second, tolerances), average)


@dataclass(frozen=True, slots=True)
class Counted:
    """Metrics, and which of them count."""

    metrics: Mapping[str, PodMetric]
    groups: Groups

    def used(self) -> dict[str, int]:
        left_out = self.groups.ignored | self.groups.unready
        used = {name: one.value for name, one in self.metrics.items() if name not in left_out}
        if not used:
            raise MetricsError("did not receive metrics for targeted pods (pods might be unready)")
        return used

    def with_assumptions(self, ratio: float, busy: Mapping[str, int]) -> dict[str, int] | None:
        """The use if pods of which nothing is known are taken against the change; None if there are none such."""
        groups = self.groups
        up_with_unready = bool(groups.unready) and ratio > 1.0
        if not up_with_unready and not groups.missing:
            return None
        assumed = self.used()
        if ratio < 1.0:
            assumed |= busy
        elif ratio > 1.0:
            assumed |= dict.fromkeys(groups.missing, 0)
        if up_with_unready:
            assumed |= dict.fromkeys(groups.unready, 0)
        return assumed


def _settled(current: int, ratio: float, ready: int, second: tuple[float, int] | None, tolerances: Tolerances) -> int:
    """The number of pods by the ratio of use to target, or by the one with assumptions. What changes direction is no
    change.
    """
    if second is None:
        return current if tolerances.hold(ratio) else math.ceil(ratio * ready)
    assumed, count = second
    replicas = math.ceil(assumed * count)
    if tolerances.hold(assumed) or _is_turned(ratio, assumed, replicas, current):
        return current
    return replicas


def _is_turned(ratio: float, assumed: float, replicas: int, current: int) -> bool:
    """Whether what is assumed leads the other way than the known use, or than it says itself."""
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


def by_value(current: int, usage: int, target: int, tolerances: Tolerances, pods: Sequence[Pod]) -> Proposal:
    """By one value that all pods together should bring to the target; from no pods at all, by the ratio alone."""
    usage = min(usage, _MOST_USED)
    ratio = usage / target
    if current == 0:
        return Proposal(min(math.ceil(ratio), _MOST), usage)
    if tolerances.hold(ratio):
        return Proposal(current, usage)
    if not pods:
        why = "no pods returned by selector while calculating replica count"
        raise MetricsError(f"unable to calculate ready pods: {why}")
    ready = sum(pod.status.phase == "Running" and is_ready(pod) for pod in pods)
    return Proposal(min(math.ceil(ratio * ready), _MOST), usage)


def by_value_per_pod(present: int, usage: int, target: int, tolerances: Tolerances) -> Proposal:
    """By one value that is shared out among all pods."""
    usage = min(usage, _MOST_USED)
    wanted = min(math.ceil(usage / target), _MOST)
    if present == 0:
        return Proposal(wanted, usage)
    if tolerances.hold(usage / (target * present)):
        wanted = present
    return Proposal(wanted, usage if usage == _MOST_USED else math.ceil(usage / present))
