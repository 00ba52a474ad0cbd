"""Which sets a pod's changes wake, and what those changes tell of the writes that the loop waits to see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.api.selectors import LabelSelector, SelectorError
from kubeloop.controllers.shared.pods.batching import patience
from kubeloop.runtime.causes.cause import Event, Origin
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.expectations import Expectations
from kubeloop.runtime.queue.workqueue import WorkQueue


class PodWakeups:
    """A handler of pod events. Expectations are kept by the owner's UID, so that a namesake starts anew."""

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
        if pod.metadata.deletion_timestamp is not None:  # first seen on its way out: nothing was created
            self._leave(pod, "ADDED")
            return
        uid = _controller_uid(pod)
        if uid is None:
            self._offer(pod, "ADDED")
            return
        waited = not self._expectations.satisfied(uid)
        self._expectations.creation_observed(uid)
        self._wake_owner(pod, "ADDED", at_once=waited and self._expectations.satisfied(uid))

    def on_update(self, old: Pod, new: Pod) -> None:
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        uid = _controller_uid(new)
        changed_hands = _controller_uid(old) != uid
        if changed_hands:
            self._leave(old, "MODIFIED")
        if new.metadata.deletion_timestamp is not None:  # it counts no longer, however long its end may take
            self._leave(new, "MODIFIED")
        elif uid is not None:
            self._wake_owner(new, "MODIFIED")
        elif changed_hands or old.metadata.labels != new.metadata.labels:
            self._offer(new, "MODIFIED")

    def on_delete(self, pod: Pod) -> None:
        self._leave(pod, "DELETED")

    def _leave(self, pod: Pod, event: Event) -> None:
        """The owner has lost a pod, or is about to."""
        uid = _controller_uid(pod)
        if uid is not None:
            waited = not self._expectations.satisfied(uid)
            self._expectations.deletion_observed(uid, pod.metadata.uid)
            self._wake_owner(pod, event, at_once=waited and self._expectations.satisfied(uid))

    def _offer(self, pod: Pod, event: Event) -> None:
        """Whoever matches an orphan may want to adopt it."""
        for owner in self._owners.list(pod.metadata.namespace):
            if self._matches(owner, pod):
                self._queue.add(key_of(owner), (_origin(pod, event),))

    def _matches(self, owner: Any, pod: Pod) -> bool:
        try:
            selector = self._selector_of(owner)
        except SelectorError:
            return False
        return not selector.empty and selector.matches(pod.metadata.labels)

    def _wake_owner(self, pod: Pod, event: Event, at_once: bool = False) -> None:
        owner = self._owner_of(pod)
        if owner is not None:
            wait = 0.0 if at_once else patience(max(owner.status.replicas, owner.spec.replicas or 0))
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
