# SPDX-License-Identifier: Apache-2.0
"""Maps pod events to keys of sets and updates the expectations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.api.selectors import LabelSelector, SelectorError
from kubeloop.controllers.shared.pods.batch_period import batch_period
from kubeloop.runtime.causes.cause import Event, Origin
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.expectations import Expectations
from kubeloop.runtime.queue.workqueue import WorkQueue


class ReplicaPodHandler:
    """Pod event handler; expectations are kept by the owner's UID, so that a recreated set starts afresh."""

    def __init__(
        self,
        queue: WorkQueue[ObjectKey],
        owners: Informer,
        expectations: Expectations[str],
        selector_of: Callable[[Any], LabelSelector],
    ) -> None:
        self._queue = queue
        self._owners = owners
        self._expectations = expectations
        self._selector_of = selector_of

    def on_add(self, pod: Pod) -> None:
        """Record a creation and enqueue the owner; for an orphan enqueue the sets that may adopt it."""
        if pod.metadata.deletion_timestamp is not None:  # first seen while terminating: no creation
            self._handle_deletion(pod, "ADDED")
            return
        uid = _controller_uid(pod)
        if uid is None:
            self._enqueue_adopters(pod, "ADDED")
            return
        waited = not self._expectations.is_satisfied(uid)
        self._expectations.creation_observed(uid)
        self._enqueue_owner(pod, "ADDED", at_once=waited and self._expectations.is_satisfied(uid))

    def on_update(self, old: Pod, new: Pod) -> None:
        """Enqueue the old and the new owner of a changed pod, or the sets that may adopt an orphan."""
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        uid = _controller_uid(new)
        changed_hands = _controller_uid(old) != uid
        if changed_hands:
            self._handle_deletion(old, "MODIFIED")
        if new.metadata.deletion_timestamp is not None:  # it no longer counts, even if its termination takes long
            self._handle_deletion(new, "MODIFIED")
        elif uid is not None:
            self._enqueue_owner(new, "MODIFIED")
        elif changed_hands or old.metadata.labels != new.metadata.labels:
            self._enqueue_adopters(new, "MODIFIED")

    def on_delete(self, pod: Pod) -> None:
        """Record a deletion and enqueue the owner."""
        self._handle_deletion(pod, "DELETED")

    def _handle_deletion(self, pod: Pod, event: Event) -> None:
        """Record that the owner has lost a pod or is about to, and enqueue it."""
        uid = _controller_uid(pod)
        if uid is not None:
            waited = not self._expectations.is_satisfied(uid)
            self._expectations.deletion_observed(uid, pod.metadata.uid)
            self._enqueue_owner(pod, event, at_once=waited and self._expectations.is_satisfied(uid))

    def _enqueue_adopters(self, pod: Pod, event: Event) -> None:
        """Enqueue the sets that match an orphan and may adopt it."""
        for owner in self._owners.list(pod.metadata.namespace):
            if self._matches(owner, pod):
                self._queue.add(key_of(owner), (_origin(pod, event),))

    def _matches(self, owner: Any, pod: Pod) -> bool:
        try:
            selector = self._selector_of(owner)
        except SelectorError:
            return False
        return not selector.is_empty and selector.matches(pod.metadata.labels)

    def _enqueue_owner(self, pod: Pod, event: Event, at_once: bool = False) -> None:
        owner = self._owner_of(pod)
        if owner is not None:
            wait = 0.0 if at_once else batch_period(max(owner.status.replicas, owner.spec.replicas or 0))
            if wait:
                self._queue.add_after(key_of(owner), wait, (_origin(pod, event),))
            else:
                self._queue.add(key_of(owner), (_origin(pod, event),))

    def _owner_of(self, pod: Pod) -> Any | None:
        reference = controller_of(pod.metadata.owner_references)
        resource: Resource = self._owners.resource
        if reference is None or reference.kind != resource.kind:
            return None
        owner = self._owners.get(pod.metadata.namespace, reference.name)
        return owner if owner is not None and owner.metadata.uid == reference.uid else None


def _controller_uid(pod: Pod) -> str | None:
    reference = controller_of(pod.metadata.owner_references)
    return None if reference is None else reference.uid


def _origin(pod: Pod, event: Event) -> Origin:
    meta = pod.metadata
    return Origin("Pod", meta.namespace, meta.name, meta.resource_version, event)
