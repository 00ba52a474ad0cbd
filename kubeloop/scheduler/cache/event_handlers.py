"""Informer event handlers for pods and nodes: update the cache and requeue pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.pods.pod import is_terminal
from kubeloop.runtime.informer.event_handlers import DeletedFinalStateUnknown
from kubeloop.runtime.objects.keys import key_of
from kubeloop.scheduler.cache.pod_info import PodInfo, is_irrelevant_update, with_node_name
from kubeloop.scheduler.framework.status import Code, Status
from kubeloop.scheduler.queue.cluster_event import (
    ASSIGNED_POD,
    NODE,
    TARGET_POD,
    ActionType,
    ClusterEvent,
    node_change_events,
    pod_change_events,
)

if TYPE_CHECKING:
    from kubeloop.scheduler.scheduler import Scheduler


_NODE_ADD, _NODE_DELETE = ClusterEvent(NODE, ActionType.ADD), ClusterEvent(NODE, ActionType.DELETE)


class NodeHandler:
    """Applies node events to the cluster state and the queue."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def on_add(self, node: Node) -> None:
        """Add a node and requeue pods."""
        with self._scheduler.handling(_NODE_ADD.label):
            self._scheduler.start_engine().cluster.set_node(node)
            self._scheduler.queue.move(_NODE_ADD, None, node)

    def on_update(self, old: Node, new: Node) -> None:
        """Update a node and requeue pods by the kinds of change."""
        self._scheduler.start_engine().cluster.set_node(new)
        for about in node_change_events(old, new):
            with self._scheduler.handling(about.label):
                self._scheduler.queue.move(about, old, new)

    def on_delete(self, node: Node) -> None:
        """Requeue pods and remove the node."""
        with self._scheduler.handling(_NODE_DELETE.label):
            self._scheduler.queue.move(_NODE_DELETE, node, None)
            self._scheduler.start_engine().cluster.remove_node(node.metadata.name)


class PodHandler:
    """Applies pod events to the cache, the queue and the nominator."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def on_add(self, pod: Pod) -> None:
        """Add an assigned pod to the cache, or an unassigned pod to the queue."""
        if is_terminal(pod):
            return
        if pod.spec.node_name:
            with self._scheduler.handling("AssignedPodAdd"):
                self._assigned(pod)
        elif self._scheduler.is_responsible(pod):
            with self._scheduler.handling("UnscheduledPodAdd"):
                self._wait(pod)

    def on_update(self, old: Pod, new: Pod) -> None:
        """Update a pod in the cache or in the queue, or move it from the queue to the cache."""
        if is_terminal(new):  # it does not use resources any more
            self.on_delete(old)
        elif old.spec.node_name:
            with self._scheduler.handling("AssignedPodUpdate"):
                self._changed_on_node(old, new)
        elif new.spec.node_name:
            with self._scheduler.handling("AssignedPodAdd"):
                self._scheduler.queue.delete(key_of(new))
                self._scheduler.nominations.drop(new.metadata.uid)
                self._assigned(new)
        elif self._scheduler.is_responsible(new):
            with self._scheduler.handling("UnscheduledPodUpdate"):
                self._changed_waiting(old, new)

    def on_delete(self, pod: Pod) -> None:
        """Delete a pod from the cache or the queue."""
        if is_terminal(pod):
            return
        if pod.spec.node_name:
            with self._scheduler.handling("AssignedPodDelete"):
                self._gone_from_node(pod)
        elif self._scheduler.is_responsible(pod):
            with self._scheduler.handling("UnscheduledPodDelete"):
                self._gone_waiting(pod)

    def on_missed_delete(self, deleted: DeletedFinalStateUnknown) -> None:
        """Delete a pod whose last known state may be outdated: it may have been assigned since."""
        pod: Any = deleted.last_known
        engine = self._scheduler.engine
        place = None if engine is None else engine.placements.get(pod.metadata.uid)
        if place is not None and not place.assumed:
            self._gone_from_node(place.info.pod)
        elif self._scheduler.is_responsible(pod):
            self._gone_waiting(pod)

    # Assigned pods.

    def _assigned(self, pod: Pod) -> None:
        engine = self._scheduler.engine
        if engine is not None:
            engine.placements.put(pod)
        self._scheduler.queue.move(ClusterEvent(ASSIGNED_POD, ActionType.ADD), None, pod)

    def _changed_on_node(self, old: Pod, new: Pod) -> None:
        engine = self._scheduler.engine
        if engine is not None:
            engine.placements.put(new)
        if is_irrelevant_update(old, new):  # frequent status updates
            return
        for about in pod_change_events(old, new, ASSIGNED_POD):
            self._scheduler.queue.move(about, old, new)

    def _gone_from_node(self, pod: Pod) -> None:
        engine = self._scheduler.engine
        if engine is not None:
            engine.placements.remove(pod.metadata.uid)
        self._scheduler.queue.move(ClusterEvent(ASSIGNED_POD, ActionType.DELETE), pod, None)

    # Unassigned pods.

    def _wait(self, pod: Pod) -> None:
        info = self._scheduler.templates.info(pod)
        self._scheduler.nominations.set(info, pod.status.nominated_node_name)
        self._scheduler.queue.add(info)

    def _changed_waiting(self, old: Pod, new: Pod) -> None:
        engine = self._scheduler.engine
        if engine is not None and engine.placements.is_assumed(new.metadata.uid):
            if new.metadata.deletion_timestamp is not None and old.metadata.deletion_timestamp is None:
                self._assumed_is_deleted(new)
            return
        info, before = self._scheduler.templates.info(new), old.status.nominated_node_name
        by_others = self._scheduler.nominations.node_of(info.uid) == before
        self._scheduler.nominations.set(info, new.status.nominated_node_name)
        self._scheduler.queue.update(old, info, pod_change_events(old, new, TARGET_POD))
        if before and before != new.status.nominated_node_name:
            self._freed_nomination(old, itself=by_others)

    def _gone_waiting(self, pod: Pod) -> None:
        self._scheduler.queue.delete(key_of(pod))
        self._scheduler.nominations.drop(pod.metadata.uid)
        engine = self._scheduler.engine
        if engine is not None and engine.placements.is_assumed(pod.metadata.uid):
            self._assumed_is_deleted(pod)
        elif pod.status.nominated_node_name:
            self._freed_nomination(pod)

    def _assumed_is_deleted(self, pod: Pod) -> None:
        """Free the resources of a deleted assumed pod at once; its binding cycle then fails."""
        engine = self._scheduler.engine
        place = None if engine is None else engine.placements.get(pod.metadata.uid)
        if engine is None or place is None:
            return
        gone = Status(Code.UNSCHEDULABLE, ("the pod was deleted",))
        if not self._scheduler.permits.refuse(pod.metadata.uid, gone):
            engine.placements.forget(pod.metadata.uid)
        self._scheduler.queue.move(ClusterEvent(ASSIGNED_POD, ActionType.DELETE), with_node_name(pod, place.node), None)

    def _freed_nomination(self, pod: Pod, *, itself: bool = False) -> None:
        """Requeue pods of no higher priority after a nomination was removed.

        With `itself`, which is set if another client removed the nomination, the pod itself is requeued too.
        """
        priority, uid = pod.spec.priority or 0, pod.metadata.uid

        def may_go_there(one: PodInfo) -> bool:
            return one.priority <= priority and (itself or one.uid != uid)

        self._scheduler.queue.move(ClusterEvent(ASSIGNED_POD, ActionType.DELETE), pod, None, may_go_there)
