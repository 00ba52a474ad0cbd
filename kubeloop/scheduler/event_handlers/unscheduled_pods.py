# SPDX-License-Identifier: Apache-2.0
"""Event handler of unscheduled pods: updates the queue and the nominator."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.runtime.objects.keys import key_of
from kubeloop.scheduler.cache.pod_info import PodInfo, SignatureCache, with_node_name
from kubeloop.scheduler.cycle.lazy_algorithm import LazyAlgorithm
from kubeloop.scheduler.cycle.waiting_pods import WaitingPods
from kubeloop.scheduler.framework.status import Code, Status
from kubeloop.scheduler.queue.cluster_event import (
    ASSIGNED_POD,
    TARGET_POD,
    ActionType,
    ClusterEvent,
    pod_change_events,
)
from kubeloop.scheduler.queue.nominator import Nominator
from kubeloop.scheduler.queue.scheduling_queue import SchedulingQueue


class UnscheduledPodHandler:
    """Applies events of pods without a node to the queue and the nominator."""

    def __init__(
        self,
        algorithm: LazyAlgorithm,
        queue: SchedulingQueue,
        signatures: SignatureCache,
        nominator: Nominator,
        waiting_pods: WaitingPods,
    ) -> None:
        self._algorithm = algorithm
        self._queue = queue
        self._signatures = signatures
        self._nominator = nominator
        self._waiting_pods = waiting_pods

    def add(self, pod: Pod) -> None:
        """Add a pod to the queue."""
        info = self._signatures.pod_info(pod)
        self._nominator.add_nominated_pod(info, pod.status.nominated_node_name)
        self._queue.add(info)

    def update(self, old: Pod, new: Pod) -> None:
        """Update a pod in the queue; requeue other pods if its nomination was removed."""
        algorithm = self._algorithm.current
        if algorithm is not None and algorithm.assumed_pods.is_assumed(new.metadata.uid):
            if new.metadata.deletion_timestamp is not None and old.metadata.deletion_timestamp is None:
                self._handle_assumed_pod_deletion(new)
            return
        info, before = self._signatures.pod_info(new), old.status.nominated_node_name
        by_others = self._nominator.nominated_node(info.uid) == before
        self._nominator.add_nominated_pod(info, new.status.nominated_node_name)
        self._queue.update(old, info, pod_change_events(old, new, TARGET_POD))
        if before and before != new.status.nominated_node_name:
            self._requeue_after_nomination_removed(old, itself=by_others)

    def remove(self, pod: Pod) -> None:
        """Remove a pod from the queue, with its nomination."""
        self._queue.delete(key_of(pod))
        self._nominator.delete_nominated_pod(pod.metadata.uid)

    def delete(self, pod: Pod) -> None:
        """Remove a deleted pod, and requeue pods that may use what was kept for it."""
        self.remove(pod)
        algorithm = self._algorithm.current
        if algorithm is not None and algorithm.assumed_pods.is_assumed(pod.metadata.uid):
            self._handle_assumed_pod_deletion(pod)
        elif pod.status.nominated_node_name:
            self._requeue_after_nomination_removed(pod)

    def _handle_assumed_pod_deletion(self, pod: Pod) -> None:
        """Free the resources of a deleted assumed pod at once; its binding cycle then fails."""
        algorithm = self._algorithm.current
        place = None if algorithm is None else algorithm.assumed_pods.get(pod.metadata.uid)
        if algorithm is None or place is None:
            return
        gone = Status(Code.UNSCHEDULABLE, ("the pod was deleted",))
        if not self._waiting_pods.reject(pod.metadata.uid, gone):
            algorithm.assumed_pods.forget_pod(pod.metadata.uid)
        self._queue.move_all_to_active_or_backoff(
            ClusterEvent(ASSIGNED_POD, ActionType.DELETE), with_node_name(pod, place.node), None
        )

    def _requeue_after_nomination_removed(self, pod: Pod, *, itself: bool = False) -> None:
        """Requeue pods of no higher priority after a nomination was removed.

        With `itself`, which is set if another client removed the nomination, the pod itself is requeued too.
        """
        priority, uid = pod.spec.priority or 0, pod.metadata.uid

        def may_go_there(one: PodInfo) -> bool:
            return one.priority <= priority and (itself or one.uid != uid)

        self._queue.move_all_to_active_or_backoff(
            ClusterEvent(ASSIGNED_POD, ActionType.DELETE), pod, None, may_go_there
        )
