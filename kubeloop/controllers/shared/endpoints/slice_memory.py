"""What a loop remembers of the slices that it wrote, until the cache shows them; and who is woken by others' writes."""

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
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.workqueue import WorkQueue


@dataclass(slots=True)
class _Written:
    """For one service."""

    version: int = 0  # which the cache has to reach before the next look
    generations: dict[str, int] = field(default_factory=dict)  # by the slice's UID, as the loop last wrote or saw it
    deleted: set[str] = field(default_factory=set)  # UIDs of slices that the loop deleted and the cache may still show


class SliceMemory:
    """One manager's slices: those in the cache, as far as its own writes don't tell otherwise."""

    def __init__(self, slices: Informer, manager: str) -> None:
        slices.add_indexer(INDEX, index_value_of)
        self.manager = manager
        self._slices = slices
        self._written: dict[ObjectKey, _Written] = {}

    # Writing

    def wrote(self, key: ObjectKey, answer: EndpointSlice) -> None:
        meta, written = answer.metadata, self._of(key)
        written.generations[meta.uid] = meta.generation
        if meta.resource_version.isdigit():
            written.version = max(written.version, int(meta.resource_version))

    def deleted(self, key: ObjectKey, one: EndpointSlice) -> None:
        written = self._of(key)
        written.generations.pop(one.metadata.uid, None)
        written.deleted.add(one.metadata.uid)

    def forget(self, key: ObjectKey) -> None:
        self._written.pop(key, None)

    def _of(self, key: ObjectKey) -> _Written:
        return self._written.setdefault(key, _Written())

    # Reading

    async def caught_up(self, key: ObjectKey) -> None:
        """Return once the cache shows what was written; a `TimeoutError` when it doesn't for too long.

        That is not waited for again: a server may have been set back to an older state.
        """
        written = self._written.get(key)
        if written is not None and written.version:
            version, written.version = written.version, 0
            await self._slices.seen(str(version))

    def slices_of(self, key: ObjectKey) -> list[EndpointSlice]:
        """The slices of a service that are not on their way out."""
        written = self._written.get(key)
        deleted = set() if written is None else written.deleted
        found = self._slices.by_index(INDEX, index_value(self.manager, key))
        return [
            one for one in found if one.metadata.deletion_timestamp is None and one.metadata.uid not in deleted
        ]  # fmt: skip

    # What the cache tells

    def manages(self, one: EndpointSlice) -> bool:
        return one.metadata.labels.get(MANAGED_BY) == self.manager

    def is_news(self, one: EndpointSlice) -> bool:
        """Whether a slice says something that the loop didn't write."""
        key = service_key_of(one)
        written = None if key is None else self._written.get(key)
        known = -1 if written is None else written.generations.get(one.metadata.uid, -1)
        return one.metadata.generation > known

    def is_loss(self, one: EndpointSlice) -> bool:
        """Whether a slice that is gone was not the loop's to go. It is forgotten with this."""
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


class SliceWakeups:
    """A handler of slice events: what others do to the loop's slices wakes the service, after a while."""

    def __init__(self, queue: WorkQueue[ObjectKey], memory: SliceMemory, delay: float) -> None:
        self._queue = queue
        self._memory = memory
        self._delay = delay

    def on_add(self, one: EndpointSlice) -> None:
        if self._memory.manages(one) and self._memory.is_news(one):
            self._wake(one, "ADDED")

    def on_update(self, old: EndpointSlice, new: EndpointSlice) -> None:
        memory = self._memory
        if service_key_of(old) != service_key_of(new):
            self._wake(new, "MODIFIED")
            self._wake(old, "MODIFIED")
        elif memory.manages(old) != memory.manages(new) or (memory.manages(new) and memory.is_news(new)):
            self._wake(new, "MODIFIED")

    def on_delete(self, one: EndpointSlice) -> None:
        if self._memory.manages(one) and self._memory.is_loss(one):
            self._wake(one, "DELETED")

    def _wake(self, one: EndpointSlice, event: Event) -> None:
        key = service_key_of(one)
        if key is not None:
            meta = one.metadata
            origin = Origin("EndpointSlice", meta.namespace, meta.name, meta.resource_version, event)
            self._queue.add_after(key, self._delay, (origin,))
