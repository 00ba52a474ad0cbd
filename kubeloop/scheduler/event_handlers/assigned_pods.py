# SPDX-License-Identifier: Apache-2.0
"""Event handler of assigned pods: updates the cache and requeues pods."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.scheduler.cache.pod_info import is_irrelevant_update
from kubeloop.scheduler.cycle.lazy_algorithm import LazyAlgorithm
from kubeloop.scheduler.queue.cluster_event import ASSIGNED_POD, ActionType, ClusterEvent, pod_change_events
from kubeloop.scheduler.queue.scheduling_queue import SchedulingQueue


class AssignedPodHandler:
    """Applies events of pods with a node to the cache and the queue."""

    def __init__(self, algorithm: LazyAlgorithm, queue: SchedulingQueue) -> None:
        self._algorithm = algorithm
        self._queue = queue

    def find(self, uid: str) -> Pod | None:
        """Return a cached pod that is assigned according to the API server, or None."""
        algorithm = self._algorithm.current
        place = None if algorithm is None else algorithm.assumed_pods.get(uid)
        return None if place is None or place.assumed else place.info.pod

    def add(self, pod: Pod) -> None:
        """Add a pod to the cache and requeue pods."""
        algorithm = self._algorithm.current
        if algorithm is not None:
            algorithm.assumed_pods.add_pod(pod)
        self._queue.move_all_to_active_or_backoff(ClusterEvent(ASSIGNED_POD, ActionType.ADD), None, pod)

    def update(self, old: Pod, new: Pod) -> None:
        """Update a pod in the cache and requeue pods by the kinds of change."""
        algorithm = self._algorithm.current
        if algorithm is not None:
            algorithm.assumed_pods.add_pod(new)
        if is_irrelevant_update(old, new):  # frequent status updates
            return
        for about in pod_change_events(old, new, ASSIGNED_POD):
            self._queue.move_all_to_active_or_backoff(about, old, new)

    def delete(self, pod: Pod) -> None:
        """Remove a pod from the cache and requeue pods."""
        algorithm = self._algorithm.current
        if algorithm is not None:
            algorithm.assumed_pods.remove_pod(pod.metadata.uid)
        self._queue.move_all_to_active_or_backoff(ClusterEvent(ASSIGNED_POD, ActionType.DELETE), pod, None)
