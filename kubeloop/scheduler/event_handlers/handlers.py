# SPDX-License-Identifier: Apache-2.0
"""Informer event handlers for pods and nodes: update the cache and requeue pods."""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import AbstractContextManager
from typing import Any

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.pods.pod import is_terminal
from kubeloop.runtime.informer.event_handlers import DeletedFinalStateUnknown
from kubeloop.scheduler.cycle.lazy_algorithm import LazyAlgorithm
from kubeloop.scheduler.event_handlers.assigned_pods import AssignedPodHandler
from kubeloop.scheduler.event_handlers.unscheduled_pods import UnscheduledPodHandler
from kubeloop.scheduler.queue.cluster_event import NODE, ActionType, ClusterEvent, node_change_events
from kubeloop.scheduler.queue.scheduling_queue import SchedulingQueue

_NODE_ADD, _NODE_DELETE = ClusterEvent(NODE, ActionType.ADD), ClusterEvent(NODE, ActionType.DELETE)

# Returns a context manager that measures the handling of an event with this label.
EventTimer = Callable[[str], AbstractContextManager[None]]


class ClusterEventHandler:
    """Requeues pods by the cluster events of other resources."""

    def __init__(self, queue: SchedulingQueue, time_event: EventTimer) -> None:
        self._queue = queue
        self._time_event = time_event

    def handle(self, about: ClusterEvent, old: Any, new: Any) -> None:
        """Requeue the pods that an event may help."""
        with self._time_event(about.label):
            self._queue.move_all_to_active_or_backoff(about, old, new)


class NodeHandler:
    """Applies node events to the cluster state and the queue."""

    def __init__(self, algorithm: LazyAlgorithm, queue: SchedulingQueue, time_event: EventTimer) -> None:
        self._algorithm = algorithm
        self._queue = queue
        self._time_event = time_event

    def on_add(self, node: Node) -> None:
        """Add a node and requeue pods."""
        with self._time_event(_NODE_ADD.label):
            self._algorithm.start().cluster.set_node(node)
            self._queue.move_all_to_active_or_backoff(_NODE_ADD, None, node)

    def on_update(self, old: Node, new: Node) -> None:
        """Update a node and requeue pods by the kinds of change."""
        self._algorithm.start().cluster.set_node(new)
        for about in node_change_events(old, new):
            with self._time_event(about.label):
                self._queue.move_all_to_active_or_backoff(about, old, new)

    def on_delete(self, node: Node) -> None:
        """Requeue pods and remove the node."""
        with self._time_event(_NODE_DELETE.label):
            self._queue.move_all_to_active_or_backoff(_NODE_DELETE, node, None)
            self._algorithm.start().cluster.remove_node(node.metadata.name)


class PodHandler:
    """Passes pod events to the handler of assigned or of unscheduled pods."""

    def __init__(
        self,
        assigned: AssignedPodHandler,
        unscheduled: UnscheduledPodHandler,
        scheduler_names: Container[str],
        time_event: EventTimer,
    ) -> None:
        self._assigned = assigned
        self._unscheduled = unscheduled
        self._scheduler_names = scheduler_names  # other pods are left to other schedulers
        self._time_event = time_event

    def on_add(self, pod: Pod) -> None:
        """Add an assigned pod to the cache, or an unassigned pod to the queue."""
        if is_terminal(pod):
            return
        if pod.spec.node_name:
            with self._time_event("AssignedPodAdd"):
                self._assigned.add(pod)
        elif pod.spec.scheduler_name in self._scheduler_names:
            with self._time_event("UnscheduledPodAdd"):
                self._unscheduled.add(pod)

    def on_update(self, old: Pod, new: Pod) -> None:
        """Update a pod in the cache or in the queue, or move it from the queue to the cache."""
        if is_terminal(new):  # it does not use resources any more
            self.on_delete(old)
        elif old.spec.node_name:
            with self._time_event("AssignedPodUpdate"):
                self._assigned.update(old, new)
        elif new.spec.node_name:
            with self._time_event("AssignedPodAdd"):
                self._unscheduled.remove(new)
                self._assigned.add(new)
        elif new.spec.scheduler_name in self._scheduler_names:
            with self._time_event("UnscheduledPodUpdate"):
                self._unscheduled.update(old, new)

    def on_delete(self, pod: Pod) -> None:
        """Delete a pod from the cache or the queue."""
        if is_terminal(pod):
            return
        if pod.spec.node_name:
            with self._time_event("AssignedPodDelete"):
                self._assigned.delete(pod)
        elif pod.spec.scheduler_name in self._scheduler_names:
            with self._time_event("UnscheduledPodDelete"):
                self._unscheduled.delete(pod)

    def on_missed_delete(self, deleted: DeletedFinalStateUnknown) -> None:
        """Delete a pod whose last known state may be outdated: it may have been assigned since."""
        pod: Any = deleted.last_known
        assigned = self._assigned.find(pod.metadata.uid)
        if assigned is not None:
            self._assigned.delete(assigned)
        elif pod.spec.scheduler_name in self._scheduler_names:
            self._unscheduled.delete(pod)
