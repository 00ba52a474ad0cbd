# SPDX-License-Identifier: Apache-2.0
"""Watch hub: encodes each change of a resource once and delivers it to all watchers.

store ── batch of events ──▶ Hub (one per stored resource) ── by namespace ──▶ watchers ──▶ their streams
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from kubeloop.apiserver.registry.selector_fields import ObjectSelector, SelectorFieldCache
from kubeloop.apiserver.watch.counters import EncodedBatch, WatchEventCounters
from kubeloop.store import Record, Store, StoreEvent, Subscription

# Encrypting and sending to one watcher takes about 20 µs, and waking its client as long again: deliveries shall use
# at most a fifth of the time. With 100 watchers this delivers half as much again per second as a third did.
_SECONDS_PER_WATCHER = 100e-6
_SHORTEST_PAUSE = 0.0005
_LONGEST_PAUSE = 0.01


class FrameSink(Protocol):
    """Receiver of a watcher's frames: an HTTP stream, or a test's list."""

    closed: bool

    def write(self, data: bytes) -> None:
        """Write encoded frames."""

    def close(self) -> None:
        """End the stream."""


class WatchChange:
    """Store event as clients see it; its encoded frames are cached by format."""

    __slots__ = ("event", "frames", "namespace")

    def __init__(self, event: StoreEvent, namespace: str) -> None:
        self.event = event
        self.namespace = namespace
        self.frames: dict[object, bytes] = {}

    def frame(self, kind: bytes, record: Record, present: WatchEncoder) -> bytes:
        """Return the event as one frame. A deleted object carries the revision of the deletion."""
        token = (kind, present.token)
        found = self.frames.get(token)
        if found is None:
            body = present.encode_object(record.value, self.event.revision)
            found = self.frames[token] = present.encode_frame(kind, body)
        return found


class WatchEncoder(Protocol):
    """Encodes stored bytes in the format that a watcher requested; equal tokens mean equal formats."""

    token: object

    def encode_object(self, value: bytes, revision: int) -> bytes:
        """Return the encoded object of an event."""

    def encode_bookmark(self, revision: int, initial_events_end: bool) -> bytes:
        """Return the encoded object of a BOOKMARK event."""

    def encode_frame(self, kind: bytes, body: bytes) -> bytes:
        """Return an event, its type (`ADDED`, …) and its object, framed for the watcher's connection."""
        ...


class WatchSubscriber:
    """Receiver of one resource's changes; subclasses implement the delivery."""

    __slots__ = ("namespace", "selector")

    def __init__(self, namespace: str, selection: ObjectSelector) -> None:
        self.namespace = namespace
        self.selector = selection

    def deliver(self, changes: Sequence[WatchChange], shared: dict[object, EncodedBatch]) -> None:
        """Deliver the matching changes; `shared` holds the encoded batches of this round, by equal watchers."""
        raise NotImplementedError

    def close(self) -> None:
        """End the watch from the server's side."""
        raise NotImplementedError

    def filter(self, change: WatchChange) -> tuple[bytes, Record | None]:
        """Return event type and record of a change as filtered by the selector; the record is None if filtered out."""
        event = change.event
        if self.namespace and change.namespace != self.namespace:
            return b"", None
        selection, record, previous = self.selector, event.record, event.previous
        if selection.is_empty:
            was, now = previous is not None, record is not None
        else:
            was = previous is not None and selection.matches(previous)
            now = record is not None and selection.matches(record)
        if now:
            return b"MODIFIED" if was else b"ADDED", record
        # An object that the selector no longer matches is deleted for its watcher, in its last matching form.
        return b"DELETED", previous if was else None


class StreamWatcher(WatchSubscriber):
    """Watcher that writes frames to a stream in its requested format."""

    __slots__ = ("_counters", "encoder", "sink")

    def __init__(
        self,
        sink: FrameSink,
        namespace: str,
        selection: ObjectSelector,
        present: WatchEncoder,
        counters: WatchEventCounters,
    ) -> None:
        super().__init__(namespace, selection)
        self.sink = sink
        self.encoder = present
        self._counters = counters

    def deliver(self, changes: Sequence[WatchChange], shared: dict[object, EncodedBatch]) -> None:
        """Write the matching changes to the stream."""
        if self.sink.closed:
            return
        # Watchers without selector, of one namespace and in one format, share the same bytes.
        token = (self.namespace, self.encoder.token) if self.selector.is_empty else self
        batch = shared.get(token)
        if batch is None:
            batch = shared[token] = EncodedBatch([*filter(None, map(self._frame, changes))], self._counters)
        if batch.data:
            batch.watchers += 1
            self.sink.write(batch.data)

    def close(self) -> None:
        """Close the stream."""
        self.sink.close()

    def _frame(self, change: WatchChange) -> bytes:
        kind, record = self.filter(change)
        return b"" if record is None else change.frame(kind, record, self.encoder)

    def bookmark(self, revision: int, initial_events_end: bool = False) -> None:
        """Write a BOOKMARK event with this revision."""
        body = self.encoder.encode_bookmark(revision, initial_events_end)
        self.sink.write(self.encoder.encode_frame(b"BOOKMARK", body))

    def error(self, status: bytes) -> None:
        """Write an ERROR event with an encoded Status."""
        self.sink.write(self.encoder.encode_frame(b"ERROR", status))


class WatchHub:
    """Watchers of one resource's storage, in all served versions.

    Delivery to many watchers takes time that writers need, too. Therefore a round of deliveries to many is followed by
    a short pause in which changes are collected: delivering them together costs hardly more than delivering one.
    """

    def __init__(self, store: Store, prefix: str, namespaced: bool, memory: SelectorFieldCache) -> None:
        self._store = store
        self._prefix = prefix
        self._namespaced = namespaced
        self._field_cache = memory
        self._watchers: dict[WatchSubscriber, None] = {}  # in order of arrival, so that a seeded run repeats exactly
        self._subscription: Subscription | None = None
        self._pending: list[StoreEvent] = []
        self._pause: asyncio.TimerHandle | None = None
        self.received = 0  # events from the store while there are watchers
        self.dispatched = 0  # events that all watchers of their time were served
        self.subscriptions = 0
        self.initial_events = 0

    @property
    def watchers(self) -> int:
        """Number of watchers."""
        return len(self._watchers)

    def replay(self, after: int) -> list[WatchChange]:
        """Return all changes after a revision; raises `CompactedError`."""
        changes: list[WatchChange] = []
        subscription = self._store.subscribe(
            self._prefix, after, lambda events: changes.extend(map(self.change_of, events))
        )
        subscription.cancel()
        return changes

    def add(self, watcher: WatchSubscriber) -> None:
        """Register a watcher for all changes from now on."""
        self._deliver()  # the collected changes precede the new watcher
        if self._subscription is None:
            self._subscription = self._store.subscribe(self._prefix, self._store.revision, self._publish)
            self.subscriptions += 1
        self._watchers[watcher] = None

    def flush(self) -> int:
        """Deliver the collected changes; return the revision up to which every watcher is served."""
        self._deliver()
        return self._store.revision

    def remove(self, watcher: WatchSubscriber) -> None:
        """Unregister a watcher; the last one ends the store subscription."""
        self._watchers.pop(watcher, None)
        if not self._watchers and self._subscription is not None:
            self._subscription.cancel()
            self._subscription = None
            self._pending.clear()

    def close(self) -> None:
        """End every watch, as when the server stops."""
        for watcher in tuple(self._watchers):
            watcher.close()

    def change_of(self, event: StoreEvent) -> WatchChange:
        """Return the store event as a Change with its namespace."""
        if not self._namespaced:
            return WatchChange(event, "")
        start = len(self._prefix)
        return WatchChange(event, event.key[start : event.key.index("/", start)])

    def deliver_past(self, watcher: WatchSubscriber, changes: Sequence[WatchChange]) -> None:
        """Deliver changes from before a watcher's registration to it."""
        shared: dict[object, EncodedBatch] = {}
        watcher.deliver(changes, shared)
        self.initial_events += len(changes)
        count_events(shared)

    def _publish(self, events: Sequence[StoreEvent]) -> None:
        self.received += len(events)
        self._pending.extend(events)
        if self._pause is None:
            self._deliver()

    def _deliver(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        events, self._pending = self._pending, []
        if not events:
            return
        self._deliver_events(events)
        pause = min(len(self._watchers) * _SECONDS_PER_WATCHER, _LONGEST_PAUSE)
        if pause > _SHORTEST_PAUSE:
            self._pause = asyncio.get_running_loop().call_later(pause, self._deliver)

    def _deliver_events(self, events: Sequence[StoreEvent]) -> None:
        changes = [self.change_of(event) for event in events]
        shared: dict[object, EncodedBatch] = {}
        for watcher in tuple(self._watchers):
            watcher.deliver(changes, shared)
        self.dispatched += len(events)
        count_events(shared)
        for event in events:
            if event.record is None:
                self._field_cache.forget(event.key)


def count_events(shared: dict[object, EncodedBatch]) -> None:
    """Count the events of one delivery to all watchers."""
    for batch in shared.values():
        if batch.watchers:
            batch.counters.add(batch)


class WatchTimers:
    """Timers of one watch: its timeout and its bookmarks, on the event loop's clock."""

    __slots__ = ("_once", "_repeating")

    def __init__(self) -> None:
        self._once: list[asyncio.TimerHandle] = []
        self._repeating: asyncio.TimerHandle | None = None

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call once after this many seconds."""
        self._once.append(asyncio.get_running_loop().call_later(seconds, call))

    def every(self, seconds: float, call: Callable[[], None]) -> None:
        """Call repeatedly at this interval in seconds; only one repeating call is supported."""

        def again() -> None:
            call()
            self.every(seconds, call)

        self._repeating = asyncio.get_running_loop().call_later(seconds, again)

    def cancel(self) -> None:
        """Cancel all timers."""
        for handle in self._once:
            handle.cancel()
        if self._repeating is not None:
            self._repeating.cancel()
