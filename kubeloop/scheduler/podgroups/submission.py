# SPDX-License-Identifier: Apache-2.0
"""Acts on the results of a pod group's cycle: starts binding cycles, or returns pods to the queue with the reasons."""

from __future__ import annotations

from dataclasses import dataclass

from kubeloop.api.generated.scheduling_v1beta1 import PodGroup
from kubeloop.scheduler.cycle.binding import BindingCycles
from kubeloop.scheduler.cycle.failure_handler import FailureHandler
from kubeloop.scheduler.cycle.lazy_algorithm import LazyAlgorithm
from kubeloop.scheduler.framework.status import Status
from kubeloop.scheduler.podgroups.conditions import PodGroupConditions
from kubeloop.scheduler.podgroups.pod_group_info import PodGroupInfo
from kubeloop.scheduler.podgroups.result import PodGroupResult, PodGroupResults, PodResult, group_unschedulable
from kubeloop.scheduler.queue.nominator import Nominator
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo
from kubeloop.scheduler.status.metrics import SchedulerMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionTargets:
    """Receivers of the results."""

    algorithm: LazyAlgorithm
    nominator: Nominator
    bindings: BindingCycles
    failures: FailureHandler
    conditions: PodGroupConditions
    metrics: SchedulerMetrics


class PodGroupSubmission:
    """Passes the results of pods and groups on."""

    def __init__(self, targets: SubmissionTargets) -> None:
        self._to = targets

    def submit(self, results: PodGroupResults) -> Status | None:
        """Act on the complete results of all groups below a topmost group.

        Returns the rejection of a pod that has a node, by a Reserve or Permit plugin.
        """
        rejection: Status | None = None
        for result in results.values():
            if isinstance(result.info.group, PodGroup):
                for pod in result.pods:
                    rejection = self._submit_pod(result, pod) or rejection
                self._to.conditions.report(result.info.group, result.status)
        return rejection

    def reject_all(self, info: PodGroupInfo, status: Status) -> None:
        """Return all pods to the queue because of an error before the cycle."""
        for queued in info.all_pods():
            self._fail(PodResult(queued), status, "")
        for leaf in info.leaves():
            if isinstance(leaf.group, PodGroup):
                self._to.conditions.report(leaf.group, status)

    def _submit_pod(self, result: PodGroupResult, pod: PodResult) -> Status | None:
        status = result.status
        if status is None and pod.status is None:
            return self._bind(pod)
        if status is not None and not status.is_rejected:
            own = pod.status if pod.status is not None and not pod.status.is_rejected else None
            self._fail(pod, own or status, "")
        elif pod.status is not None:
            self._fail(pod, pod.status, pod.nominated)
        elif status is not None and result.waiting_on_preemption:
            self._fail(pod, status, pod.nominated)
        elif status is not None:
            self._fail(pod, group_unschedulable(status.message), "")
        return None

    def _bind(self, pod: PodResult) -> Status | None:
        """Assume the pod again, now for good, and start its binding cycle unless a plugin rejects it."""
        algorithm, cycle = self._to.algorithm.current, pod.cycle
        assert algorithm is not None
        assert cycle is not None
        cycle.set_tentative(False)
        waits = algorithm.reserve(cycle)
        self._to.metrics.observe_extension_points(
            cycle.profile.name, cycle.stopwatch.durations, isinstance(waits, Status)
        )
        if isinstance(waits, Status):
            self._count(pod.queued, waits, pod.seconds)
            self._to.failures.handle_failure_on_node(pod.queued, waits)
            return waits
        self._to.nominator.delete_nominated_pod(pod.queued.info.uid)
        self._to.bindings.start(pod.queued, cycle, waits)
        return None

    def _fail(self, pod: PodResult, status: Status, nominated: str | None) -> None:
        self._count(pod.queued, status, pod.seconds)
        self._to.failures.handle_scheduling_failure(pod.queued, status, pod.diagnosis, nominated)

    def _count(self, queued: QueuedPodInfo, status: Status, seconds: float) -> None:
        self._to.metrics.count_failed_attempt(queued.info.pod.spec.scheduler_name, status, seconds)
