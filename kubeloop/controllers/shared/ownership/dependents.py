# SPDX-License-Identifier: Apache-2.0
"""Maps owners to the objects that they manage or may adopt, and objects to the keys of these owners."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kubeloop.api.kinds import Resource
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.api.selectors import LabelSelector, SelectorError, label_selector_as_selector
from kubeloop.controllers.shared.pods.batch_period import batch_period
from kubeloop.runtime.causes.cause import Event, Origin
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import CONTROLLER, ORPHANS, controller_uid_of, orphan_namespace_of
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.enqueue import controller_key
from kubeloop.runtime.queue.workqueue import WorkQueue


class Dependents:
    """Objects of one kind as seen by owners of one kind that select them by labels."""

    def __init__(self, objects: Informer, owners: Informer) -> None:
        objects.add_indexer(CONTROLLER, controller_uid_of)
        objects.add_indexer(ORPHANS, orphan_namespace_of)
        self._objects = objects
        self._owners = owners
        self._controller_key = controller_key(owners.resource)

    @property
    def resource(self) -> Resource:
        """Resource of the objects."""
        return self._objects.resource

    def owned_by(self, owner: Any) -> Iterable[Any]:
        """Return the objects whose controller is the owner."""
        return self._objects.by_index(CONTROLLER, owner.metadata.uid)

    def claimable_by(self, owner: Any) -> Iterable[Any]:
        """Return the objects that the owner controls, and the orphans in its namespace."""
        return (*self.owned_by(owner), *self._objects.by_index(ORPHANS, owner.metadata.namespace))

    def owner_keys(self, obj: Any) -> Iterable[ObjectKey]:
        """Return the key of the object's controller; for an orphan the keys of all owners that select it."""
        if controller_of(obj.metadata.owner_references) is not None:
            return self._controller_key(obj)
        labels = obj.metadata.labels
        if not labels:
            return ()
        near = self._owners.list(obj.metadata.namespace)
        return [key_of(owner) for owner in near if selector_of(owner).matches(labels)]


def selector_of(owner: Any) -> LabelSelector:
    """Return the owner's selector; an invalid one selects nothing."""
    try:
        return label_selector_as_selector(owner.spec.selector)
    except SelectorError:
        return label_selector_as_selector(None)


def concerns_owner(old: Any, new: Any) -> bool:
    """Return True if the change matters to an owner: an orphan matters if it is new or relabelled, not if deleted."""
    current = old if new is None else new
    if controller_of(current.metadata.owner_references) is not None:
        return True
    if new is None:
        return False
    return old is None or _has_changed_owner(old, new)


def _has_changed_owner(old: Any, new: Any) -> bool:
    """Return True if the owner references or labels differ."""
    before, after = old.metadata, new.metadata
    return bool(before.owner_references != after.owner_references or before.labels != after.labels)


class OwnerEventHandler:
    """Event handler that enqueues the owners of a changed object; large owners batch changes over a delay."""

    def __init__(
        self, queue: WorkQueue[ObjectKey], dependents: Dependents, owners: Informer, size_of: Callable[[Any], int]
    ) -> None:
        self._queue = queue
        self._dependents = dependents
        self._owners = owners
        self._size_of = size_of

    def on_add(self, obj: Any) -> None:
        """Enqueue the owners of a new object."""
        self._wake(None, obj, "ADDED")

    def on_update(self, old: Any, new: Any) -> None:
        """Enqueue the owners of a changed object; a resync is ignored."""
        if old.metadata.resource_version != new.metadata.resource_version:
            self._wake(old, new, "MODIFIED")

    def on_delete(self, obj: Any) -> None:
        """Enqueue the owners of a deleted object."""
        self._wake(obj, None, "DELETED")

    def _wake(self, old: Any, new: Any, event: Event) -> None:
        if not concerns_owner(old, new):
            return
        current = old if new is None else new
        keys = dict.fromkeys(self._dependents.owner_keys(current))
        if old is not None and new is not None and _has_changed_owner(old, new):
            keys |= dict.fromkeys(self._dependents.owner_keys(old))  # the former owner must notice the loss
        if not keys:
            return
        meta = current.metadata
        origin = Origin(self._dependents.resource.kind, meta.namespace, meta.name, meta.resource_version, event)
        for key in keys:
            owner = self._owners.get(*key)
            wait = batch_period(self._size_of(owner)) if owner is not None else 0.0
            if wait:
                self._queue.add_after(key, wait, (origin,))
            else:
                self._queue.add(key, (origin,))
