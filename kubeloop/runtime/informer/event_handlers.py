"""Who is told of the changes in a cache, and how: plain calls, one after the other, whose failures stay contained."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from kubeloop.runtime.objects.keys import ObjectKey

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Deleted:
    """A tombstone: an object is gone, but went unseen, so that its last state may have been another."""

    key: ObjectKey
    last_known: Any


class Handler(Protocol):
    """What an informer calls. Handlers must return at once: they take note, and work elsewhere.

    `on_update(old, new)` with `old is new` is a resync: nothing has changed. A handler that also has
    `on_missed_delete(deleted: Deleted)` is told of unseen deletions there; others by `on_delete` with the last state
    that is known.
    """

    def on_add(self, obj: Any) -> None: ...

    def on_update(self, old: Any, new: Any) -> None: ...

    def on_delete(self, obj: Any) -> None: ...


def _ignore(*_: Any) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Callbacks:
    """A handler made of functions, as many as are wanted."""

    on_add: Callable[[Any], None] = _ignore
    on_update: Callable[[Any, Any], None] = _ignore
    on_delete: Callable[[Any], None] = _ignore


class Registration:
    """A handler's place in an informer."""

    def __init__(self, handler: Handler, resync: float, objects: Callable[[], Iterable[Any]]) -> None:
        self._handler = handler
        self._resync = resync
        self._objects = objects
        self._timer: asyncio.TimerHandle | None = None
        self._told_all = asyncio.Event()
        self.errors = 0
        self.last_error: Exception | None = None

    @property
    def synced(self) -> bool:
        """Whether the handler has been told of everything that was there at first."""
        return self._told_all.is_set()

    async def wait_synced(self) -> None:
        await self._told_all.wait()

    def mark_synced(self) -> None:
        self._told_all.set()

    def tell(self, old: Any | None, new: Any | None) -> None:
        """Of a change: without an old object it was added, without a new one deleted."""
        try:
            if old is None:
                self._handler.on_add(new)
            elif new is not None:
                self._handler.on_update(old, new)
            elif type(old) is Deleted:
                self._missed(old)
            else:
                self._handler.on_delete(old)
        except Exception as error:  # one handler's fault is neither the cache's nor another handler's
            self.errors += 1
            self.last_error = error
            log.exception("a handler failed")

    def _missed(self, deleted: Deleted) -> None:
        tell = getattr(self._handler, "on_missed_delete", None)
        if tell is not None:
            tell(deleted)
        else:
            self._handler.on_delete(deleted.last_known)

    def start_resyncs(self) -> None:
        """From now on tell of every object anew, once a period."""
        if self._resync > 0 and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._resync, self._resync_now)

    def stop_resyncs(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _resync_now(self) -> None:
        self._timer = None
        if self.synced:
            for obj in tuple(self._objects()):
                self.tell(obj, obj)
        self.start_resyncs()
