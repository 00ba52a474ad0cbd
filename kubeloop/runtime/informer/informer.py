# SPDX-License-Identifier: Apache-2.0
"""Shared informers: one cache per collection for the whole process, with event handlers."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from kubeloop.api.kinds import Resource
from kubeloop.api.requests import WatchEvent
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.runtime.informer.equivalence_groups import EquivalenceGroups, GroupKeyFunction
from kubeloop.runtime.informer.event_handlers import DeletedFinalStateUnknown, HandlerRegistration, ResourceEventHandler
from kubeloop.runtime.informer.informer_metrics import InformerMetrics
from kubeloop.runtime.informer.list_watch import ClientListWatch, ListWatch, ListWatchClient, ResourceSelection
from kubeloop.runtime.informer.reflector import DEFAULT_TIMEOUTS, Reflector, ReflectorTimeouts
from kubeloop.runtime.informer.store import Indexer, IndexFunction
from kubeloop.runtime.objects.keys import ObjectKey, key_of

Transform = Callable[[Any], Any]
# Old and new object of a key; a tombstone replaces an object whose deletion was missed.
_Change = tuple[Any | None, Any | None]
# Observes the mean seconds of processing an event, and the number of events.
EventObserver = Callable[[float, int], None]


class Informer:
    """Cache of one collection that notifies handlers of changes.

    Handlers are called in the order of the changes, after the cache shows them. All of them see the same order.
    """

    def __init__(
        self,
        source: ListWatch,
        selection: ResourceSelection,
        clock: Clock,
        patience: ReflectorTimeouts = DEFAULT_TIMEOUTS,
        observe: EventObserver | None = None,
    ) -> None:
        self.selection = selection
        self._monotonic = clock.monotonic
        self._observe = observe
        self.reflector = Reflector(source, self, clock=clock, name=str(selection), patience=patience)
        self._cache = Indexer()
        # Replaced when a handler comes or goes, so that handlers may be added and removed while others are called.
        self._registrations: tuple[HandlerRegistration, ...] = ()
        self._add_functions: tuple[tuple[HandlerRegistration, Callable[[Any], None]], ...] = ()
        self._delete_functions: tuple[tuple[HandlerRegistration, Callable[[Any], None]], ...] = ()
        self._update_functions: tuple[tuple[HandlerRegistration, Callable[[Any, Any], None]], ...] = ()
        self._has_readers = False
        self._transform: Transform | None = None
        self._first_state = asyncio.Event()
        self._running = False
        self._version_waiters: list[tuple[int, int, asyncio.Future[None]]] = []  # a heap: version, tie breaker
        self._ties = count()
        self.version = ""

    @property
    def resource(self) -> Resource:
        """Resource of the collection."""
        return self.selection.resource

    async def run(self) -> None:
        """Follow the server until cancelled."""
        self._running = True
        try:
            for one in self._registrations:
                one.start_resyncs()
            await self.reflector.run()
        finally:
            self._running = False
            for one in self._registrations:
                one.stop_resyncs()
            for _, _, future in self._version_waiters:
                future.cancel()
            self._version_waiters.clear()

    # Reading

    def __len__(self) -> int:
        return len(self._cache)

    def get(self, namespace: str, name: str) -> Any | None:
        """Return an object; None if it does not exist."""
        return self._cache.get((namespace, name))

    def list(self, namespace: str = "") -> Sequence[Any]:
        """Return all objects, or those of a namespace."""
        return self._cache.list(namespace)

    def by_index(self, index: str, value: str) -> Sequence[Any]:
        """Return the objects under an index value."""
        return self._cache.by_index(index, value)

    def index_values(self, index: str) -> Sequence[str]:
        """Return all values of an index."""
        return self._cache.index_values(index)

    def index_function(self, index: str) -> IndexFunction:
        """Return the function of an index."""
        return self._cache.index_function(index)

    def add_indexer(self, index: str, function: IndexFunction) -> None:
        """Add an index."""
        self._cache.add_indexer(index, function)

    def by_group(self, grouping: str, group: str) -> EquivalenceGroups:
        """Return a group's objects by equivalence class."""
        return self._cache.by_group(grouping, group)

    def add_group_index(self, name: str, function: GroupKeyFunction) -> None:
        """Add a grouping by equivalence class."""
        self._cache.add_group_index(name, function)

    @property
    def has_synced(self) -> bool:
        """True once the cache holds the state of the first list and handlers were called for it."""
        return self._first_state.is_set()

    async def wait_synced(self) -> None:
        """Wait until the cache is synced."""
        await self._first_state.wait()

    async def wait_for_version(self, resource_version: str, within: float = 30.0) -> None:
        """Wait until the cache shows a write that returned this version: read your own writes.

        Objects outside of the selection never show, and their version only counts as reached after a later event.
        """
        version = int(resource_version)
        if self.has_version(version):
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._version_waiters, (version, next(self._ties), future))
        async with asyncio.timeout(within):
            await future

    # Handlers

    def add_handler(self, handler: ResourceEventHandler, resync: float = 0.0) -> HandlerRegistration:
        """Add a handler: called for present objects, then every change; all again each `resync` seconds."""
        one = HandlerRegistration(handler, resync, lambda: self._cache)
        for obj in self._cache.list():
            one.notify(None, obj)
        self._set_registrations((*self._registrations, one))
        if self.has_synced:
            one.mark_synced()
        if self._running:
            one.start_resyncs()
        return one

    def add_reader(self) -> None:
        """Register a user of the cache without a handler."""
        self._has_readers = True

    @property
    def is_used(self) -> bool:
        """True if there are handlers or readers."""
        return self._has_readers or bool(self._registrations)

    def remove_handler(self, registration: HandlerRegistration) -> None:
        """Remove a handler."""
        registration.stop_resyncs()
        self._set_registrations(tuple(one for one in self._registrations if one is not registration))

    def _set_registrations(self, every: tuple[HandlerRegistration, ...]) -> None:
        self._registrations = every
        self._add_functions = tuple((one, call) for one in every if (call := one.add_function) is not None)
        self._delete_functions = tuple((one, call) for one in every if (call := one.delete_function) is not None)
        self._update_functions = tuple((one, update) for one in every if (update := one.update_function) is not None)

    def set_transform(self, transform: Transform) -> None:
        """Set a function that reduces objects before they are stored; only before the informer is started."""
        if self._running or self.has_synced:
            raise RuntimeError(f"the informer of {self.selection} has been started")
        self._transform = transform

    # Called by the reflector

    def replace(self, items: Sequence[Any], resource_version: str) -> None:
        """Replace the whole state. Objects now missing were deleted unseen; handlers run when the cache is complete."""
        began = self._monotonic()
        present = {key_of(obj) for obj in items}
        changes = [self._remove_unseen(key) for key in tuple(self._cache.keys()) if key not in present]
        for obj in items:
            changes += self._store(obj)
        for one in self._registrations:
            for old, new in changes:
                one.notify(old, new)
        self._observe_since(began, len(changes))
        self._first_state.set()
        for one in self._registrations:
            one.mark_synced()
        self._advance_version(resource_version)

    def apply(self, events: Sequence[WatchEvent]) -> None:
        """Apply single changes. Handlers are called for each before the next is shown."""
        began = self._monotonic()
        for event in events:
            if event.type == "BOOKMARK":
                continue
            changes = self._delete(event.object) if event.type == "DELETED" else self._store(event.object)
            for old, new in changes:
                self._notify(old, new)
        if events:
            self._observe_since(began, len(events))
            self._advance_version(events[-1].resource_version)

    def _notify(self, old: Any | None, new: Any | None) -> None:
        """Call all handlers for a change; the loops are here because they run for every event and handler."""
        if type(old) is DeletedFinalStateUnknown:
            for one in self._registrations:
                one.notify(old, None)
        elif old is None or new is None:
            obj, functions = (new, self._add_functions) if old is None else (old, self._delete_functions)
            for one, handle in functions:
                try:
                    handle(obj)
                except Exception as error:  # a failing handler must not affect the cache or other handlers
                    one.record_error(error)
        else:
            for one, handle_update in self._update_functions:
                try:
                    handle_update(old, new)
                except Exception as error:  # likewise
                    one.record_error(error)

    def _observe_since(self, began: float, count: int) -> None:
        """Observe the processing of events, which share its time equally."""
        if self._observe is not None and count:
            self._observe((self._monotonic() - began) / count, count)

    def _store(self, obj: Any) -> Sequence[_Change]:
        if self._transform is not None:
            obj = self._transform(obj)
        key = key_of(obj)
        old = self._cache.get(key)
        if old is not None:
            before, after = old.metadata, obj.metadata
            if before.uid != after.uid:  # deleted and recreated unseen: two changes, not one
                return (self._remove_unseen(key), (self._cache.put(obj), obj))
            if before.resource_version == after.resource_version:
                return ()
        self._cache.replace(key, old, obj)
        return ((old, obj),)

    def _delete(self, last: Any) -> Sequence[_Change]:
        if self._cache.remove(key_of(last)) is None:
            return ()
        return ((last if self._transform is None else self._transform(last), None),)

    def _remove_unseen(self, key: ObjectKey) -> _Change:
        return DeletedFinalStateUnknown(key, self._cache.remove(key)), None

    def _advance_version(self, version: str) -> None:
        self.version = version
        while self._version_waiters and self.has_version(self._version_waiters[0][0]):
            _, _, future = heapq.heappop(self._version_waiters)
            if not future.done():
                future.set_result(None)

    def has_version(self, version: int) -> bool:
        """Return True if the cache shows a version."""
        return self.version.isdigit() and int(self.version) >= version


class SharedInformerFactory:
    """Shared informer factory of a process: one informer per selection."""

    def __init__(
        self,
        client: ListWatchClient,
        clock: Clock,
        patience: ReflectorTimeouts = DEFAULT_TIMEOUTS,
        metrics: InformerMetrics | None = None,
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._clock = clock
        self._timeouts = patience
        self._informers: dict[ResourceSelection, Informer] = {}
        self._tasks: dict[ResourceSelection, asyncio.Task[None]] = {}
        self._started = False

    def __iter__(self) -> Iterator[Informer]:
        return iter(self._informers.values())

    def for_resource(
        self,
        resource: Resource | type,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
    ) -> Informer:
        """Return the informer of a selection; after `start` it follows the server at once.

        The resource may be given as the class of a built-in kind.
        """
        if isinstance(resource, type):
            resource = resource_of_class(resource)
        selection = ResourceSelection(resource, namespace, labels, fields, metadata_only)
        informer = self._informers.get(selection)
        if informer is None:
            source, observe = ClientListWatch(self._client, selection), None
            if self._metrics is not None:
                observe = self._metrics.observer_of(resource)
            informer = Informer(source, selection, self._clock, self._timeouts, observe)
            self._informers[selection] = informer
            if self._metrics is not None:
                self._metrics.add(informer)
            if self._started:
                self._run(informer)
        return informer

    def existing(self, resource: Resource) -> Informer | None:
        """Return the informer of a whole resource if there is one; creates none."""
        return self._informers.get(ResourceSelection(resource))

    def for_metadata(self, resource: Resource) -> Informer:
        """Return an informer of a resource's metadata: the one of whole objects if it exists."""
        return self.existing(resource) or self.for_resource(resource, metadata_only=True)

    def release(self, informer: Informer) -> None:
        """Stop the informer of a collection that is gone for good, unless it has handlers or readers."""
        if informer.is_used:
            return
        self._informers.pop(informer.selection, None)
        if self._metrics is not None:
            self._metrics.remove(informer)
        task = self._tasks.pop(informer.selection, None)
        if task is not None:
            task.cancel()

    def start(self) -> None:
        """Start all informers."""
        self._started = True
        for informer in self._informers.values():
            self._run(informer)

    async def wait_synced(self, within: float = 60.0) -> None:
        """Wait until all caches are filled; a `TimeoutError` names those that are not, and why."""
        waits = [asyncio.ensure_future(one.wait_synced()) for one in self]
        _, late = await asyncio.wait(waits, timeout=within) if waits else ((), ())
        for one in late:
            one.cancel()
        if late:
            raise TimeoutError("not synced: " + "; ".join(_complaint(one) for one in self if not one.has_synced))

    async def stop(self) -> None:
        """Stop all informers; the caches stay as they are."""
        self._started = False
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self, informer: Informer) -> None:
        if informer.selection not in self._tasks:
            task = asyncio.get_running_loop().create_task(informer.run(), name=f"informer of {informer.selection}")
            self._tasks[informer.selection] = task


def _complaint(informer: Informer) -> str:
    error = informer.reflector.last_error
    return f"{informer.selection}" + (f" ({error})" if error is not None else "")
