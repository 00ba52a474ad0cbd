# SPDX-License-Identifier: Apache-2.0
"""Event handlers of a cache: called synchronously and in order; their exceptions are contained."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from kubeloop.runtime.objects.keys import ObjectKey

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeletedFinalStateUnknown:
    """Tombstone of an object whose deletion was missed, so that its last state may be unknown."""

    key: ObjectKey
    last_known: Any


class ResourceEventHandler(Protocol):
    """Informer event handler. It must return at once: it enqueues, and works elsewhere.

    `on_update(old, new)` with `old is new` is a resync: nothing has changed. A handler that also has
    `on_missed_delete(deleted: Deleted)` receives missed deletions there; others by `on_delete` with the last known
    state.
    """

    def on_add(self, obj: Any) -> None:
        """Handle a new object."""

    def on_update(self, old: Any, new: Any) -> None:
        """Handle a changed object, or a resync."""

    def on_delete(self, obj: Any) -> None:
        """Handle a deleted object."""


def _ignore(*_: Any) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ResourceEventHandlerFuncs:
    """Handler made of optional functions."""

    on_add: Callable[[Any], None] = _ignore
    on_update: Callable[[Any, Any], None] = _ignore
    on_delete: Callable[[Any], None] = _ignore


class HandlerRegistration:
    """Registration of a handler with an informer."""

    def __init__(self, handler: ResourceEventHandler, resync: float, objects: Callable[[], Iterable[Any]]) -> None:
        self._handler = handler
        self._resync = resync
        self._objects = objects
        self._timer: asyncio.TimerHandle | None = None
        self._initial_delivered = asyncio.Event()
        self.errors = 0
        self.last_error: Exception | None = None

    @property
    def has_synced(self) -> bool:
        """True once the handler was called for all initial objects."""
        return self._initial_delivered.is_set()

    async def wait_synced(self) -> None:
        """Wait until the handler was called for all initial objects."""
        await self._initial_delivered.wait()

    @property
    def add_function(self) -> Callable[[Any], None] | None:
        """Function for added objects; None if the handler ignores them."""
        function = self._handler.on_add
        return None if function is _ignore else function

    @property
    def update_function(self) -> Callable[[Any, Any], None] | None:
        """Function for changed objects; None if the handler ignores them."""
        function = self._handler.on_update
        return None if function is _ignore else function

    @property
    def delete_function(self) -> Callable[[Any], None] | None:
        """Function for deleted objects whose last state is known; None if the handler ignores them."""
        function = self._handler.on_delete
        return None if function is _ignore else function

    def mark_synced(self) -> None:
        """Mark the initial objects as delivered."""
        self._initial_delivered.set()

    def notify(self, old: Any | None, new: Any | None) -> None:
        """Call the handler for a change: without an old object it was added, without a new one deleted."""
        try:
            if old is None:
                self._handler.on_add(new)
            elif new is not None:
                self._handler.on_update(old, new)
            elif type(old) is DeletedFinalStateUnknown:
                self._missed(old)
            else:
                self._handler.on_delete(old)
        except Exception as error:  # a failing handler must not affect the cache or other handlers
            self.record_error(error)

    def record_error(self, error: Exception) -> None:
        """Record and log the error that a handler has raised."""
        self.errors += 1
        self.last_error = error
        log.exception("an event handler failed")

    def _missed(self, deleted: DeletedFinalStateUnknown) -> None:
        tell = getattr(self._handler, "on_missed_delete", None)
        if tell is not None:
            tell(deleted)
        else:
            self._handler.on_delete(deleted.last_known)

    def start_resyncs(self) -> None:
        """Start to call the handler for every object once per period."""
        if self._resync > 0 and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._resync, self._resync_now)

    def stop_resyncs(self) -> None:
        """Stop the periodic resync."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _resync_now(self) -> None:
        self._timer = None
        if self.has_synced:
            for obj in tuple(self._objects()):
                self.notify(obj, obj)
        self.start_resyncs()
