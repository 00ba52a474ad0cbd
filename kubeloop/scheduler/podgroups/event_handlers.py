# SPDX-License-Identifier: Apache-2.0
"""Informer event handlers for pod groups and their pods: update the manager and the queue."""

from __future__ import annotations

from collections.abc import Callable, Container

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.scheduling_v1beta1 import PodGroup
from kubeloop.api.pods.pod import is_terminal
from kubeloop.runtime.informer.event_handlers import ResourceEventHandler, ResourceEventHandlerFuncs
from kubeloop.scheduler.event_handlers.handlers import EventTimer
from kubeloop.scheduler.podgroups.conditions import PodGroupConditions
from kubeloop.scheduler.podgroups.group_key import AnyPodGroup, group_key
from kubeloop.scheduler.podgroups.manager import PodGroupManager
from kubeloop.scheduler.queue.cluster_event import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    UNSCHEDULED_POD,
    ActionType,
    ClusterEvent,
)
from kubeloop.scheduler.queue.pod_group_queue import PodGroupQueue


class PodGroupMemberHandler:
    """Keeps the manager's pods current; must see a pod event before the queue does."""

    def __init__(self, manager: PodGroupManager, scheduler_names: Container[str]) -> None:
        self._manager = manager
        self._scheduler_names = scheduler_names

    def on_add(self, pod: Pod) -> None:
        """Add a pod that is assigned or to be scheduled here."""
        if not is_terminal(pod) and (pod.spec.node_name or pod.spec.scheduler_name in self._scheduler_names):
            self._manager.set_pod(pod)

    def on_update(self, old: Pod, new: Pod) -> None:
        """Update a pod; one that has ended counts no more."""
        if old.metadata.uid != new.metadata.uid or is_terminal(new):
            self._manager.remove_pod(old)
        self.on_add(new)

    def on_delete(self, pod: Pod) -> None:
        """Remove a pod."""
        self._manager.remove_pod(pod)


def unscheduled_pod_events(queue: PodGroupQueue, scheduler_names: Container[str]) -> ResourceEventHandler:
    """Return a handler that reports new pods without a node; it must see a pod event after the queue does."""

    def on_add(pod: Pod) -> None:
        if not is_terminal(pod) and not pod.spec.node_name and pod.spec.scheduler_name in scheduler_names:
            queue.move_all_to_active_or_backoff(ClusterEvent(UNSCHEDULED_POD, ActionType.ADD), None, pod)

    return ResourceEventHandlerFuncs(on_add)


class PodGroupHandler:
    """Applies events of pod groups, or of composite pod groups, to the manager and the queue."""

    def __init__(
        self,
        manager: PodGroupManager,
        queue: PodGroupQueue,
        conditions: PodGroupConditions,
        time_event: EventTimer,
    ) -> None:
        self._manager = manager
        self._queue = queue
        self._conditions = conditions
        self._time_event = time_event

    def on_add(self, group: AnyPodGroup) -> None:
        """Add a group, and queue the pods that waited for it."""

        def apply() -> None:
            self._manager.set_group(group)
            self._queue.add_group(group)

        self._handle(ActionType.ADD, None, group, apply)

    def on_update(self, old: AnyPodGroup, new: AnyPodGroup) -> None:
        """Update a group."""

        def apply() -> None:
            self._manager.set_group(new)
            self._queue.update_group(new)

        if old.metadata.resource_version != new.metadata.resource_version:
            self._handle(ActionType.UPDATE, old, new, apply)

    def on_delete(self, group: AnyPodGroup) -> None:
        """Remove a group; its queued pods wait until it comes back."""

        def apply() -> None:
            root = self._manager.root_of(group_key(group))
            self._manager.remove_group(group)
            self._queue.delete_group(root)
            if isinstance(group, PodGroup):
                self._conditions.forget(group)

        self._handle(ActionType.DELETE, group, None, apply)

    def _handle(
        self, action: ActionType, old: AnyPodGroup | None, new: AnyPodGroup | None, apply: Callable[[], None]
    ) -> None:
        about = ClusterEvent(POD_GROUPS if isinstance(new or old, PodGroup) else COMPOSITE_POD_GROUPS, action)
        with self._time_event(about.label):
            apply()
            self._queue.move_all_to_active_or_backoff(about, old, new)
