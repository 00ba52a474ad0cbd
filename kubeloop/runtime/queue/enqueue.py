# SPDX-License-Identifier: Apache-2.0
"""Maps object events to keys in a queue, each with its origin."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

from kubeloop.api.kinds import Resource
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.runtime.causes.cause import Event, Origin
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.workqueue import LOW, NORMAL, Priority, WorkQueue

Key = TypeVar("Key", bound=Hashable)
KeysOf = Callable[[Any], Iterable[Key]]
# Takes the old and the new object (None when added or deleted); returns True if the change is relevant.
Predicate = Callable[[Any, Any], bool]


def own_key(obj: Any) -> tuple[ObjectKey]:
    """Return the object's own key, for the kind that a controller reconciles."""
    return (key_of(obj),)


def controller_key(owner: Resource) -> KeysOf[ObjectKey]:
    """Return a function for the key of the controlling owner, if it is of this kind in any version."""

    def keys_of(obj: Any) -> tuple[ObjectKey, ...]:
        meta = obj.metadata
        reference = controller_of(meta.owner_references)
        if reference is None or reference.kind != owner.kind:
            return ()
        if reference.api_version.rpartition("/")[0] != owner.group:
            return ()
        return (ObjectKey(meta.namespace if owner.namespaced else "", reference.name),)

    return keys_of


class EnqueueHandler(Generic[Key]):
    """Event handler that puts keys into a queue.

    An update that changes nothing is a resync: it has low priority, and the predicate sees it as an added object,
    because a predicate that looks for differences would never let it pass.
    """

    def __init__(
        self,
        queue: WorkQueue[Key],
        kind: str,
        keys_of: KeysOf[Key],
        predicate: Predicate | None,
        delay: float = 0.0,  # seconds in which further changes may gather
    ) -> None:
        self._queue = queue
        self._kind = kind
        self._keys_of = keys_of
        self._predicate = predicate
        self._delay = delay

    def on_add(self, obj: Any) -> None:
        """Enqueue the keys of an added object."""
        if self._predicate is None or self._predicate(None, obj):
            self._put(tuple(self._keys_of(obj)), obj, "ADDED", NORMAL)

    def on_update(self, old: Any, new: Any) -> None:
        """Enqueue the keys of both states of a changed object; resyncs with low priority."""
        if old is new or old.metadata.resource_version == new.metadata.resource_version:
            if self._predicate is None or self._predicate(None, new):
                self._put(tuple(self._keys_of(new)), new, "resync", LOW)
        elif self._predicate is None or self._predicate(old, new):
            keys, before = tuple(self._keys_of(new)), tuple(self._keys_of(old))
            if before != keys:  # the previous keys must be reconciled, too
                keys += tuple(key for key in before if key not in keys)
            self._put(keys, new, "MODIFIED", NORMAL)

    def on_delete(self, obj: Any) -> None:
        """Enqueue the keys of a deleted object."""
        if self._predicate is None or self._predicate(obj, None):
            self._put(tuple(self._keys_of(obj)), obj, "DELETED", NORMAL)

    def _put(self, keys: tuple[Key, ...], obj: Any, event: Event, priority: Priority) -> None:
        if not keys:
            return
        meta = obj.metadata
        origins = (Origin(self._kind, meta.namespace, meta.name, meta.resource_version, event),)
        for key in keys:
            if self._delay:
                self._queue.add_after(key, self._delay, origins, priority)
            else:
                self._queue.add(key, origins, priority)
