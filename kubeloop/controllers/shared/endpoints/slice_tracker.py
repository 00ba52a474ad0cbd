# SPDX-License-Identifier: Apache-2.0
"""Records the EndpointSlices that a controller wrote until the cache shows them, and handles changes by others."""

from __future__ import annotations

from dataclasses import dataclass, field

from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.controllers.shared.endpoints.slices import (
    INDEX,
    MANAGED_BY,
    index_value,
    index_value_of,
    service_key_of,
)
from kubeloop.runtime.causes.cause import Event, Origin
from kubeloop.runtime.consistency_store import ConsistencyStore
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.workqueue import WorkQueue


@dataclass(slots=True)
class _PendingWrites:
    """Writes for one Service that the cache may not show yet."""

    generations: dict[str, int] = field(default_factory=dict)  # by the slice's UID, as last written or seen
    deleted: set[str] = field(default_factory=set)  # UIDs of slices that were deleted and the cache may still show


class EndpointSliceTracker:
    """EndpointSlices of one manager: those in the cache, corrected by recorded writes.

    It waits for its writes by a consistency store. Beyond that it tells own events from those of others, as upstream's
    tracker does: by generation, because the metadata of a slice may change without an effect on its endpoints.
    """

    def __init__(self, slices: Informer, manager: str) -> None:
        slices.add_indexer(INDEX, index_value_of)
        self.manager = manager
        self._slices = slices
        self._consistency = ConsistencyStore(slices)
        self._written: dict[ObjectKey, _PendingWrites] = {}

    # Writing

    def record_update(self, key: ObjectKey, answer: EndpointSlice) -> None:
        """Record the slice that a write returned."""
        self._of(key).generations[answer.metadata.uid] = answer.metadata.generation
        self._consistency.wrote_at(key, self._slices.resource.kind, answer)

    def expect_deletion(self, key: ObjectKey, one: EndpointSlice) -> None:
        """Record that the controller deleted a slice."""
        written = self._of(key)
        written.generations.pop(one.metadata.uid, None)
        written.deleted.add(one.metadata.uid)

    def forget(self, key: ObjectKey) -> None:
        """Drop the state of a deleted Service."""
        self._consistency.clear(key)
        self._written.pop(key, None)

    def _of(self, key: ObjectKey) -> _PendingWrites:
        return self._written.setdefault(key, _PendingWrites())

    # Reading

    async def wait_ready(self, key: ObjectKey) -> None:
        """Wait until the cache shows what was written; raises `TimeoutError` if that takes too long."""
        await self._consistency.wait_ready(key)

    def slices_of(self, key: ObjectKey) -> list[EndpointSlice]:
        """Return the Service's slices that are not being deleted."""
        written = self._written.get(key)
        deleted = set() if written is None else written.deleted
        found = self._slices.by_index(INDEX, index_value(self.manager, key))
        return [
            one for one in found if one.metadata.deletion_timestamp is None and one.metadata.uid not in deleted
        ]  # fmt: skip

    # Cache events

    def manages(self, one: EndpointSlice) -> bool:
        """Return True if the slice carries this manager's label."""
        return one.metadata.labels.get(MANAGED_BY) == self.manager

    def should_sync(self, one: EndpointSlice) -> bool:
        """Return True if the slice has a generation that the controller did not write."""
        key = service_key_of(one)
        written = None if key is None else self._written.get(key)
        known = -1 if written is None else written.generations.get(one.metadata.uid, -1)
        return one.metadata.generation > known

    def handle_deletion(self, one: EndpointSlice) -> bool:
        """Return True if a removed slice was not deleted by the controller; also drops its record."""
        key = service_key_of(one)
        written = None if key is None else self._written.get(key)
        if key is None or written is None:
            return True
        uid = one.metadata.uid
        was_wanted = uid in written.deleted
        written.deleted.discard(uid)
        written.generations.pop(uid, None)
        if not written.deleted and not written.generations:
            del self._written[key]
        return not was_wanted


class SliceEventHandler:
    """EndpointSlice event handler that enqueues the Service, after a delay, when others change the slices."""

    def __init__(self, queue: WorkQueue[ObjectKey], memory: EndpointSliceTracker, delay: float) -> None:
        self._queue = queue
        self._memory = memory
        self._delay = delay

    def on_add(self, one: EndpointSlice) -> None:
        """Enqueue the Service of a slice that another client created."""
        if self._memory.manages(one) and self._memory.should_sync(one):
            self._wake(one, "ADDED")

    def on_update(self, old: EndpointSlice, new: EndpointSlice) -> None:
        """Enqueue the Services of a slice that another client changed."""
        memory = self._memory
        if service_key_of(old) != service_key_of(new):
            self._wake(new, "MODIFIED")
            self._wake(old, "MODIFIED")
        elif memory.manages(old) != memory.manages(new) or (memory.manages(new) and memory.should_sync(new)):
            self._wake(new, "MODIFIED")

    def on_delete(self, one: EndpointSlice) -> None:
        """Enqueue the Service of a slice that another client deleted."""
        if self._memory.manages(one) and self._memory.handle_deletion(one):
            self._wake(one, "DELETED")

    def _wake(self, one: EndpointSlice, event: Event) -> None:
        key = service_key_of(one)
        if key is not None:
            meta = one.metadata
            origin = Origin("EndpointSlice", meta.namespace, meta.name, meta.resource_version, event)
            self._queue.add_after(key, self._delay, (origin,))
