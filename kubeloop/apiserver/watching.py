"""Watches: every change of a resource, framed once and shared by all who watch it.

store ── batch of events ──▶ Hub (one a resource) ── by namespace ──▶ watchers ──▶ their streams
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from kubeloop.apiserver.http import frame
from kubeloop.apiserver.selection import Memory, Selection
from kubeloop.store import Event, Record, Store, Subscription

# Encrypting and sending to one watcher takes some 20 µs; deliveries shall take no more than a third of the time.
_SECONDS_A_WATCHER = 40e-6
_SHORTEST_PAUSE = 0.0005
_LONGEST_PAUSE = 0.01


class Sink(Protocol):
    """Where a watcher's frames go: an HTTP stream, or a test's list."""

    closed: bool

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class Change:
    """One event as clients see it; its plain frame is made once, when first asked for."""

    __slots__ = ("event", "frames", "namespace")

    def __init__(self, event: Event, namespace: str) -> None:
        self.event = event
        self.namespace = namespace
        self.frames: dict[object, bytes] = {}

    def frame(self, kind: bytes, record: Record, present: Presenter) -> bytes:
        """`{"type":…,"object":…}` as one chunk. What a watcher sees deleted carries the deletion's revision."""
        token = (kind, present.token)
        found = self.frames.get(token)
        if found is None:
            body = present.event_object(record.value, self.event.revision)
            found = self.frames[token] = frame(b'{"type":"%b","object":%b}\n' % (kind, body))
        return found


class Presenter(Protocol):
    """Turns stored bytes into the form a watcher asked for; equal tokens mean equal forms."""

    token: object

    def event_object(self, value: bytes, revision: int) -> bytes: ...

    def bookmark(self, revision: int, initial_events_end: bool) -> bytes: ...


class Watcher:
    """One client's watch: what it selects and how it wants it."""

    __slots__ = ("namespace", "present", "selection", "sink")

    def __init__(self, sink: Sink, namespace: str, selection: Selection, present: Presenter) -> None:
        self.sink = sink
        self.namespace = namespace
        self.selection = selection
        self.present = present

    def offer(self, changes: Sequence[Change]) -> None:
        """Send those changes that matter to this watcher, as one write."""
        frames = [sent for change in changes if (sent := self.frame(change))]
        if frames:
            self.sink.write(frames[0] if len(frames) == 1 else b"".join(frames))

    def frame(self, change: Change) -> bytes:
        event = change.event
        if self.namespace and change.namespace != self.namespace:
            return b""
        selection, record, previous = self.selection, event.record, event.previous
        if selection.everything:
            was, now = previous is not None, record is not None
        else:
            was = previous is not None and selection.matches(previous)
            now = record is not None and selection.matches(record)
        if now:
            assert record is not None
            return change.frame(b"MODIFIED" if was else b"ADDED", record, self.present)
        if was:
            # An object that a selector no longer matches is gone for its watcher, in its last matching form.
            assert previous is not None
            return change.frame(b"DELETED", previous, self.present)
        return b""

    def bookmark(self, revision: int, initial_events_end: bool = False) -> None:
        body = self.present.bookmark(revision, initial_events_end)
        self.sink.write(frame(b'{"type":"BOOKMARK","object":%b}\n' % body))


class Hub:
    """All watchers of one resource's storage, whatever version they watch it in.

    Telling many watchers takes time that writers need too. So a round of deliveries to many is followed by a short
    pause, in which changes gather: they are delivered together, which costs hardly more than one of them alone.
    """

    def __init__(self, store: Store, prefix: str, namespaced: bool, memory: Memory) -> None:
        self._store = store
        self._prefix = prefix
        self._namespaced = namespaced
        self._memory = memory
        self._watchers: set[Watcher] = set()
        self._subscription: Subscription | None = None
        self._gathered: list[Event] = []
        self._pause: asyncio.TimerHandle | None = None

    @property
    def watchers(self) -> int:
        return len(self._watchers)

    def replay(self, after: int) -> list[Change]:
        """Everything that happened after a revision; raises `Compacted`."""
        changes: list[Change] = []
        subscription = self._store.subscribe(
            self._prefix, after, lambda events: changes.extend(map(self.change, events))
        )
        subscription.cancel()
        return changes

    def add(self, watcher: Watcher) -> None:
        """From now on a watcher is told of every change."""
        self._deliver()  # what has gathered is past for the new one
        if self._subscription is None:
            self._subscription = self._store.subscribe(self._prefix, self._store.revision, self._publish)
        self._watchers.add(watcher)

    def remove(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)
        if not self._watchers and self._subscription is not None:
            self._subscription.cancel()
            self._subscription = None
            self._gathered.clear()

    def close(self) -> None:
        """End every watch, as when the server stops."""
        for watcher in tuple(self._watchers):
            watcher.sink.close()

    def change(self, event: Event) -> Change:
        if not self._namespaced:
            return Change(event, "")
        start = len(self._prefix)
        return Change(event, event.key[start : event.key.index("/", start)])

    def _publish(self, events: Sequence[Event]) -> None:
        self._gathered.extend(events)
        if self._pause is None:
            self._deliver()

    def _deliver(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        events, self._gathered = self._gathered, []
        if not events:
            return
        self._tell(events)
        pause = min(len(self._watchers) * _SECONDS_A_WATCHER, _LONGEST_PAUSE)
        if pause > _SHORTEST_PAUSE:
            self._pause = asyncio.get_running_loop().call_later(pause, self._deliver)

    def _tell(self, events: Sequence[Event]) -> None:
        changes = [self.change(event) for event in events]
        shared: dict[object, bytes] = {}
        for watcher in tuple(self._watchers):
            if watcher.sink.closed:
                continue
            if watcher.selection.everything:
                # Watchers of everything, of one namespace, in one form, get the very same bytes.
                token = (watcher.namespace, watcher.present.token)
                joined = shared.get(token)
                if joined is None:
                    joined = shared[token] = b"".join(map(watcher.frame, changes))
                if joined:
                    watcher.sink.write(joined)
            else:
                watcher.offer(changes)
        for event in events:
            if event.record is None:
                self._memory.forget(event.key)


class Timers:
    """A watch's end and its bookmarks, on the event loop's clock."""

    __slots__ = ("_handles",)

    def __init__(self) -> None:
        self._handles: list[asyncio.TimerHandle] = []

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self._handles.append(asyncio.get_running_loop().call_later(seconds, call))

    def every(self, seconds: float, call: Callable[[], None]) -> None:
        def again() -> None:
            call()
            self.every(seconds, call)

        self._handles[:] = [h for h in self._handles if not h.cancelled()]
        self.after(seconds, again)

    def cancel(self) -> None:
        for handle in self._handles:
            handle.cancel()
