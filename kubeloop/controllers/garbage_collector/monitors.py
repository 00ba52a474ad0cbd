# SPDX-License-Identifier: Apache-2.0
"""One metadata informer for each discovered kind, feeding the graph."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.clock import Clock
from kubeloop.controllers.garbage_collector.graph import GraphNode, OwnershipGraph
from kubeloop.controllers.garbage_collector.identity import identity_of
from kubeloop.runtime.causes.cause import Event, Origin, Origins
from kubeloop.runtime.informer.event_handlers import HandlerRegistration
from kubeloop.runtime.informer.informer import Informer, SharedInformerFactory

# Seconds for which a kind that cannot be listed delays others, as upstream.
SYNC_TIMEOUT = 30.0
# Resources whose objects define kinds.
_DEFINITIONS = frozenset(
    {("apiextensions.k8s.io", "customresourcedefinitions"), ("apiregistration.k8s.io", "apiservices")}
)


@dataclass(frozen=True, slots=True)
class GraphMonitor:
    """Informer of a watched kind."""

    informer: Informer
    registrations: tuple[HandlerRegistration, ...]
    since: float


class GraphMonitors:
    """All watched kinds."""

    def __init__(
        self, informers: SharedInformerFactory, graph: OwnershipGraph, clock: Clock, redefined: Callable[[], None]
    ) -> None:
        self._informers = informers
        self._graph = graph
        self._clock = clock
        self._redefined = redefined
        self._watched: dict[tuple[str, str, str], GraphMonitor] = {}
        self._by_kind: dict[tuple[str, str], Informer] = {}

    def sync(self, resources: Iterable[Resource]) -> bool:
        """Watch exactly these resources; returns True if anything changed."""
        wanted = {(one.group, one.version, one.plural): one for one in resources}
        gone = [key for key in self._watched if key not in wanted]
        new = [key for key in wanted if key not in self._watched]
        for key in gone:  # first, since the same objects may return in another version of their kind
            self._unwatch(self._watched.pop(key))
        for key in new:
            self._watched[key] = self._watch(wanted[key])
        self._by_kind = {
            (one.informer.resource.group_version, one.informer.resource.kind): one.informer
            for one in self._watched.values()
        }
        return bool(new or gone)

    async def wait_synced(self) -> bool:
        """Wait until all kinds are listed or a timeout has passed; returns True if they are."""
        waits = [
            asyncio.ensure_future(one.wait_synced()) for kind in self._watched.values() for one in kind.registrations
        ]
        if not waits:
            return True
        try:
            _, late = await asyncio.wait(waits, timeout=SYNC_TIMEOUT)
        finally:
            for one in waits:
                one.cancel()
        return not late

    @property
    def is_settling(self) -> bool:
        """True if a kind is new, so that its objects may not be known yet."""
        now = self._clock.monotonic()
        return any(
            not one.registrations[0].has_synced and now - one.since < SYNC_TIMEOUT for one in self._watched.values()
        )

    def metadata_of(self, node: GraphNode) -> ObjectMeta | None:
        """Return an object's metadata as last seen; None if it is not watched."""
        where = node.identity
        informer = self._by_kind.get((where.api_version, where.kind))
        obj = None if informer is None else informer.get(where.namespace, where.name)
        if obj is None or obj.metadata.uid != where.uid:
            return None
        meta: ObjectMeta = obj.metadata
        return meta

    def close(self) -> None:
        """Remove all handlers."""
        for one in self._watched.values():
            for registration in one.registrations:
                one.informer.remove_handler(registration)
        self._watched.clear()
        self._by_kind.clear()

    def _watch(self, resource: Resource) -> GraphMonitor:
        informer = self._informers.for_metadata(resource)
        registrations = [informer.add_handler(_GraphFeeder(self._graph, resource))]
        if (resource.group, resource.plural) in _DEFINITIONS:
            registrations.append(informer.add_handler(_Definitions(informer, self._redefined)))
        return GraphMonitor(informer, tuple(registrations), self._clock.monotonic())

    def _unwatch(self, monitor: GraphMonitor) -> None:
        informer = monitor.informer
        for registration in monitor.registrations:
            informer.remove_handler(registration)
        self._informers.release(informer)
        for obj in informer.list():
            self._graph.mark_unobserved(obj.metadata.uid)


class _GraphFeeder:
    """Event handler that feeds relevant changes to the graph."""

    def __init__(self, graph: OwnershipGraph, resource: Resource) -> None:
        self._graph = graph
        self._resource = resource

    def on_add(self, obj: Any) -> None:
        meta = obj.metadata
        self._graph.observe(identity_of(self._resource, meta), meta, self._origin(meta, "ADDED"))

    def on_update(self, old: Any, new: Any) -> None:
        before, meta = old.metadata, new.metadata
        if (
            before.owner_references == meta.owner_references
            and before.deletion_timestamp == meta.deletion_timestamp
            and before.finalizers == meta.finalizers
        ):
            return
        self._graph.observe(identity_of(self._resource, meta), meta, self._origin(meta, "MODIFIED"))

    def on_delete(self, obj: Any) -> None:
        meta = obj.metadata
        self._graph.remove(identity_of(self._resource, meta), self._origin(meta, "DELETED"))

    def _origin(self, meta: ObjectMeta, event: Event) -> Origins:
        return (Origin(self._resource.kind, meta.namespace, meta.name, meta.resource_version, event),)


class _Definitions:
    """Event handler that reports added, changed and removed kinds."""

    def __init__(self, informer: Informer, redefined: Callable[[], None]) -> None:
        self._informer = informer
        self._redefined = redefined

    def on_add(self, _: Any) -> None:
        if self._informer.has_synced:
            self._redefined()

    def on_update(self, _old: Any, _new: Any) -> None:
        self._redefined()

    def on_delete(self, _: Any) -> None:
        self._redefined()
