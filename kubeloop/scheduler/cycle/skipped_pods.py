# SPDX-License-Identifier: Apache-2.0
"""Popped pods that need no scheduling: terminating ones, and those that already have a node in memory."""

from __future__ import annotations

from kubeloop.scheduler.cycle.lazy_algorithm import LazyAlgorithm
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo
from kubeloop.scheduler.queue.scheduling_queue import SchedulingQueue
from kubeloop.scheduler.status.reporter import Reporter


class SkippedPods:
    """Ends the attempts of pods that need no scheduling."""

    def __init__(self, algorithm: LazyAlgorithm, queue: SchedulingQueue, reporter: Reporter) -> None:
        self._algorithm = algorithm
        self._queue = queue
        self._reporter = reporter

    def skip(self, queued: QueuedPodInfo) -> bool:
        """Return True, and end the attempt, if the pod is terminating or already assumed."""
        info, algorithm = queued.info, self._algorithm.current
        pod = info.pod
        if pod.metadata.deletion_timestamp is not None:
            note = f"skip schedule deleting pod: {pod.metadata.namespace}/{pod.metadata.name}"
            self._reporter.record_event(pod, "Warning", "FailedScheduling", note, action="Scheduling")
        elif algorithm is None or not algorithm.assumed_pods.is_assumed(info.uid):
            return False
        self._queue.done(info.uid)
        return True
