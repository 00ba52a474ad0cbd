# SPDX-License-Identifier: Apache-2.0
"""Results of scheduling attempts: start of the binding cycle, or failure, with metrics."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kubeloop.clock import Clock
from kubeloop.scheduler.cycle.binding import BindingCycles
from kubeloop.scheduler.cycle.failure_handler import FailureHandler
from kubeloop.scheduler.framework.status import NO_NODES, Code, Diagnosis, SchedulingError, Status
from kubeloop.scheduler.queue.nominator import Nominator
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo
from kubeloop.scheduler.status.metrics import SchedulerMetrics

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle.algorithm import SchedulingAlgorithm
    from kubeloop.scheduler.cycle.scheduling_cycle import SchedulingCycle

log = logging.getLogger(__name__)


class SchedulingResults:
    """Passes the results of scheduling attempts on."""

    def __init__(
        self,
        nominator: Nominator,
        bindings: BindingCycles,
        failures: FailureHandler,
        metrics: SchedulerMetrics,
        clock: Clock,
    ) -> None:
        self._nominator = nominator
        self._bindings = bindings
        self._failures = failures
        self._metrics = metrics
        self._clock = clock

    def finish_scheduling_cycle(
        self,
        algorithm: SchedulingAlgorithm,
        queued: QueuedPodInfo,
        cycle: SchedulingCycle,
        diagnosis: Diagnosis | None,
    ) -> Status | None:
        """Start the binding cycle of a pod with a node; else run PostFilter and return the pod to the queue."""
        metrics, name = self._metrics, cycle.profile.name
        if diagnosis is not None:
            nominated = algorithm.run_post_filter_plugins(cycle, diagnosis)
            metrics.observe_extension_points(name, cycle.stopwatch.durations, not nominated)
            refusal = Status(Code.UNSCHEDULABLE, (diagnosis.message,))
            self._failures.handle_scheduling_failure(queued, refusal, diagnosis, nominated)
            return refusal
        waits = algorithm.reserve(cycle)
        metrics.observe_extension_points(name, cycle.stopwatch.durations, isinstance(waits, Status))
        if isinstance(waits, Status):
            self._failures.handle_failure_on_node(queued, waits)
            return waits
        self._nominator.delete_nominated_pod(queued.info.uid)
        self._bindings.start(queued, cycle, waits)
        return None

    def handle_no_nodes(self, queued: QueuedPodInfo) -> Status:
        """Return a pod to the queue because there are no nodes."""
        refusal = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (NO_NODES,))
        self._failures.handle_scheduling_failure(queued, refusal, None, "")
        return refusal

    def handle_error(self, queued: QueuedPodInfo, error: Exception) -> Status:
        """Return a pod to the queue because its attempt raised an error."""
        if not isinstance(error, SchedulingError):
            log.error("%s: scheduling failed", queued.key, exc_info=error)
        refusal = Status(Code.ERROR, (str(error),))
        self._failures.handle_scheduling_failure(queued, refusal, None, "")
        return refusal

    def count_attempt(self, queued: QueuedPodInfo, refusal: Status | None) -> None:
        """Count an attempt; one that selected a node is counted by the binding cycle."""
        metrics, seconds = self._metrics, self._clock.monotonic() - queued.attempt_started_at
        metrics.observe_algorithm(seconds)
        if refusal is not None:
            metrics.count_failed_attempt(queued.info.pod.spec.scheduler_name, refusal, seconds)
