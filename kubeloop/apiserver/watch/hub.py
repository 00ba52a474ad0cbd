"""Watches: every change of a resource, framed once and shared by all who watch it.

store ── batch of events ──▶ Hub (one a resource) ── by namespace ──▶ watchers ──▶ their streams
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from kubeloop.apiserver.registry.selector_fields import Memory, Selection
from kubeloop.http import frame
from kubeloop.store import Event, Record, Store, Subscription

# Encrypting and sending to one watcher takes some 20 µs, and waking its client as long again: deliveries shall take no
# more than a fifth of the time. With 100 watchers this delivers half as much again a second as a third did.
_SECONDS_A_WATCHER = 100e-6
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
        """The event as one chunk. What a watcher sees deleted carries the deletion's revision."""
        token = (kind, present.token)
        found = self.frames.get(token)
        if found is None:
            body = present.event_object(record.value, self.event.revision)
            found = self.frames[token] = frame(present.event(kind, body))
        return found


class Presenter(Protocol):
    """Turns stored bytes into the form a watcher asked for; equal tokens mean equal forms."""

    token: object

    def event_object(self, value: bytes, revision: int) -> bytes: ...

    def bookmark(self, revision: int, initial_events_end: bool) -> bytes: ...

    def event(self, kind: bytes, body: bytes) -> bytes:
        """What is sent of an event: its kind (`ADDED`, …) and its object."""
        ...


class Watcher:
    """Somebody who is told of changes; subclasses say how."""

    __slots__ = ("namespace", "selection")

    def __init__(self, namespace: str, selection: Selection) -> None:
        self.namespace = namespace
        self.selection = selection

    def tell(self, changes: Sequence[Change], shared: dict[object, bytes]) -> None:
        """Pass on those changes that matter here; `shared` holds what watchers alike can share in this round."""
        raise NotImplementedError

    def close(self) -> None:
        """The server ends the watch."""
        raise NotImplementedError

    def seen(self, change: Change) -> tuple[bytes, Record | None]:
        """What a change looks like through the selector, and of which record; None when it doesn't matter."""
        event = change.event
        if self.namespace and change.namespace != self.namespace:
            return b"", None
        selection, record, previous = self.selection, event.record, event.previous
        if selection.everything:
            was, now = previous is not None, record is not None
        else:
            was = previous is not None and selection.matches(previous)
            now = record is not None and selection.matches(record)
        if now:
            return b"MODIFIED" if was else b"ADDED", record
        # An object that a selector no longer matches is gone for its watcher, in its last matching form.
        return b"DELETED", previous if was else None


class StreamWatcher(Watcher):
    """A watcher at the other end of a stream, with the form in which it wants its objects."""

    __slots__ = ("present", "sink")

    def __init__(self, sink: Sink, namespace: str, selection: Selection, present: Presenter) -> None:
        super().__init__(namespace, selection)
        self.sink = sink
        self.present = present

    def tell(self, changes: Sequence[Change], shared: dict[object, bytes]) -> None:
        if self.sink.closed:
            return
        # Watchers of everything, of one namespace, in one form, get the very same bytes.
        token = (self.namespace, self.present.token) if self.selection.everything else None
        joined = shared.get(token)
        if joined is None:
            joined = b"".join(map(self._frame, changes))
            if token is not None:
                shared[token] = joined
        if joined:
            self.sink.write(joined)

    def close(self) -> None:
        self.sink.close()

    def _frame(self, change: Change) -> bytes:
        kind, record = self.seen(change)
        return b"" if record is None else change.frame(kind, record, self.present)

    def bookmark(self, revision: int, initial_events_end: bool = False) -> None:
        body = self.present.bookmark(revision, initial_events_end)
        self.sink.write(frame(self.present.event(b"BOOKMARK", body)))


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
        self._watchers: dict[Watcher, None] = {}  # in the order of their arrival, so that a seeded run repeats exactly
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
        self._watchers[watcher] = None

    def settle(self) -> int:
        """Deliver what has gathered; the revision that every watcher has then been told of."""
        self._deliver()
        return self._store.revision

    def remove(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)
        if not self._watchers and self._subscription is not None:
            self._subscription.cancel()
            self._subscription = None
            self._gathered.clear()

    def close(self) -> None:
        """End every watch, as when the server stops."""
        for watcher in tuple(self._watchers):
            watcher.close()

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
            watcher.tell(changes, shared)
        for event in events:
            if event.record is None:
                self._memory.forget(event.key)


class Timers:
    """A watch's end and its bookmarks, on the event loop's clock."""

    __slots__ = ("_once", "_repeating")

    def __init__(self) -> None:
        self._once: list[asyncio.TimerHandle] = []
        self._repeating: asyncio.TimerHandle | None = None

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call once."""
        self._once.append(asyncio.get_running_loop().call_later(seconds, call))

    def every(self, seconds: float, call: Callable[[], None]) -> None:
        """Call again and again; one thing at a time."""

        def again() -> None:
            call()
            self.every(seconds, call)

        self._repeating = asyncio.get_running_loop().call_later(seconds, again)

    def cancel(self) -> None:
        for handle in self._once:
            handle.cancel()
        if self._repeating is not None:
            self._repeating.cancel()
