# SPDX-License-Identifier: Apache-2.0
"""Watch hub of a version with webhook conversion: delivers changes once they are converted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from kubeloop.api import errors
from kubeloop.apiserver.apiextensions.conversion.cache import VersionConversion
from kubeloop.apiserver.registry.selector_fields import SelectorFieldCache
from kubeloop.apiserver.watch.counters import EncodedBatch
from kubeloop.apiserver.watch.hub import WatchHub, WatchSubscriber, count_events
from kubeloop.store import Store, StoreEvent

log = logging.getLogger(__name__)


def values_of(events: Sequence[StoreEvent]) -> list[bytes]:
    """Return the stored bytes of events that a watcher may receive."""
    return [record.value for event in events for record in (event.record, event.previous) if record is not None]


class ConvertingWatchHub(WatchHub):
    """Watch hub that keeps the order: later events wait while earlier ones are converted.

    `_since` is the revision from which each watcher receives events; `_told` the last one delivered to all.
    """

    def __init__(
        self, store: Store, prefix: str, namespaced: bool, memory: SelectorFieldCache, conversion: VersionConversion
    ) -> None:
        super().__init__(store, prefix, namespaced, memory)
        self.conversion = conversion
        self._waiting: list[StoreEvent] = []
        self._since: dict[WatchSubscriber, int] = {}
        self._delivered = store.revision
        self._task: asyncio.Task[None] | None = None

    def add(self, watcher: WatchSubscriber) -> None:
        """Register a watcher for all changes from now on."""
        self._since[watcher] = self._store.revision
        super().add(watcher)

    def remove(self, watcher: WatchSubscriber) -> None:
        """Unregister a watcher."""
        self._since.pop(watcher, None)
        super().remove(watcher)
        if not self._watchers:
            self._waiting.clear()

    def flush(self) -> int:
        """Deliver what is converted; return the revision up to which every watcher is served."""
        revision = super().flush()
        return min(self._delivered, self._waiting[0].revision - 1) if self._waiting else revision

    def close(self) -> None:
        """Cancel the conversion and end every watch."""
        if self._task is not None:
            self._task.cancel()
        super().close()

    def _publish(self, events: Sequence[StoreEvent]) -> None:
        self._waiting.extend(events)
        if self._task is None:
            self._proceed()

    def _proceed(self) -> None:
        """Deliver the events that need no conversion, and start to convert the next ones."""
        ready = 0
        for event in self._waiting:
            if any(self.conversion.get_cached(value) is None for value in values_of((event,))):
                break
            ready += 1
        passed_on, self._waiting = self._waiting[:ready], self._waiting[ready:]
        if passed_on:
            self._delivered = passed_on[-1].revision
            super()._publish(passed_on)
        if self._waiting:
            self._task = asyncio.get_running_loop().create_task(self._convert(list(self._waiting)))
            self._task.add_done_callback(partial(self._converted, list(self._waiting)))

    async def _convert(self, events: Sequence[StoreEvent]) -> None:
        await self.conversion.prepare(values_of(events))

    def _converted(self, events: Sequence[StoreEvent], task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._proceed()
            return
        if not isinstance(error, errors.ApiError):
            log.error("failed to deliver events to watchers of %s", self.conversion.version, exc_info=error)
        # They would miss events: the watches end, and clients that start again get the error.
        self._waiting.clear()
        for watcher in tuple(self._watchers):
            watcher.close()

    def _deliver_events(self, events: Sequence[StoreEvent]) -> None:
        changes = [self.change_of(event) for event in events]
        shared: dict[object, EncodedBatch] = {}
        for watcher in tuple(self._watchers):
            since = self._since.get(watcher, 0)
            if since < events[0].revision:
                watcher.deliver(changes, shared)
            else:
                self.deliver_past(watcher, [change for change in changes if change.event.revision > since])
        self.dispatched += len(events)
        count_events(shared)
        for event in events:
            if event.record is None:
                self._field_cache.forget(event.key)
