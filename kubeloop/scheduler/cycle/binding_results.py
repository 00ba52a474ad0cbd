# SPDX-License-Identifier: Apache-2.0
"""Results of binding cycles: a bound pod, a failure that undoes the reservation, or an interruption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubeloop.scheduler.cache.pod_info import with_node_name
from kubeloop.scheduler.cycle.failure_handler import FailureHandler
from kubeloop.scheduler.cycle.lazy_algorithm import LazyAlgorithm
from kubeloop.scheduler.framework.status import Status
from kubeloop.scheduler.queue.cluster_event import ASSIGNED_POD, ActionType, ClusterEvent
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo
from kubeloop.scheduler.queue.scheduling_queue import SchedulingQueue
from kubeloop.scheduler.status.metrics import SchedulerMetrics
from kubeloop.scheduler.status.reporter import Reporter

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle.scheduling_cycle import SchedulingCycle


class BindingResults:
    """Passes the results of binding cycles on."""

    def __init__(
        self,
        algorithm: LazyAlgorithm,
        queue: SchedulingQueue,
        failures: FailureHandler,
        reporter: Reporter,
        metrics: SchedulerMetrics,
    ) -> None:
        self._algorithm = algorithm
        self._queue = queue
        self._failures = failures
        self._reporter = reporter
        self._metrics = metrics

    def handle_bound(self, queued: QueuedPodInfo, cycle: SchedulingCycle) -> None:
        """Report and count a bound pod, and run PostBind."""
        pod = queued.info.pod
        self._reporter.record_bound(pod, cycle.node)
        self._metrics.observe_scheduled_pod(pod.spec.scheduler_name, queued, cycle.profile.now())
        for plugin in cycle.profile.post_bind_plugins:
            plugin.post_bind(cycle, cycle.node)

    def handle_error(self, queued: QueuedPodInfo, cycle: SchedulingCycle, refusal: Status) -> None:
        """Undo the reservation, return the pod to the queue, and requeue pods that may use the freed resources."""
        self._unreserve(cycle)
        uid, pod = queued.info.uid, queued.info.pod
        took = cycle.profile.now() - queued.attempt_started_at
        self._metrics.count_failed_attempt(pod.spec.scheduler_name, refusal, took)
        self._failures.handle_failure_on_node(queued, refusal)
        freed = with_node_name(pod, cycle.node)
        self._queue.move_all_to_active_or_backoff(
            ClusterEvent(ASSIGNED_POD, ActionType.DELETE), freed, None, lambda one: one.uid != uid
        )

    def handle_interruption(self, queued: QueuedPodInfo, cycle: SchedulingCycle) -> None:
        """Undo the reservation of a pod whose binding was cancelled, and requeue the pod."""
        cycle.interrupt()
        self._unreserve(cycle)
        self._queue.done(queued.info.uid)
        self._queue.add(queued.info)

    def finish(self, queued: QueuedPodInfo) -> None:
        """End the attempt of a pod."""
        self._queue.done(queued.info.uid)

    def _unreserve(self, cycle: SchedulingCycle) -> None:
        algorithm = self._algorithm.current
        if algorithm is not None:
            algorithm.unreserve(cycle)
