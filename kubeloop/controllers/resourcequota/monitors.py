# SPDX-License-Identifier: Apache-2.0
"""Informers of the countable kinds; report changes that may free resources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kubeloop.api.generated.core_v1 import PersistentVolumeClaim, Pod, Service
from kubeloop.api.generated.resource_v1 import DeviceClass, ResourceClaim
from kubeloop.api.kinds import Resource
from kubeloop.api.quota import evaluator_of, has_evaluator
from kubeloop.api.quota.devices import DEVICE_CLAIMS, ResourceClaimEvaluator
from kubeloop.api.quota.evaluator import QuotaEvaluator
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.runtime.informer.event_handlers import (
    HandlerRegistration,
    ResourceEventHandler,
    ResourceEventHandlerFuncs,
)
from kubeloop.runtime.informer.informer import Informer, SharedInformerFactory

# Kinds that are measured by more than their number, so that metadata does not suffice.
FULL_OBJECT_KINDS = frozenset(resource_of_class(one) for one in (Pod, Service, PersistentVolumeClaim, ResourceClaim))
# Resources whose objects define kinds.
_DEFINITIONS = frozenset({"customresourcedefinitions.apiextensions.k8s.io", "apiservices.apiregistration.k8s.io"})
_NEEDED = frozenset({"create", "delete", "list", "watch"})
# Seconds for which a kind that is not listed yet delays others, as upstream.
SYNC_TIMEOUT = 30.0

# Called with a kind, the old object, and the new one, or None if it is gone.
Changed = Callable[["QuotaMonitor", Any, Any], None]


@dataclass(frozen=True, slots=True)
class QuotaMonitor:
    """A counted kind."""

    meter: QuotaEvaluator
    informer: Informer
    needs: tuple[Informer, ...] = ()  # other informers that measure its objects

    @property
    def is_synced(self) -> bool:
        """True if all objects of the kind are known."""
        return self.informer.has_synced and all(one.has_synced for one in self.needs)

    def objects(self, namespace: str) -> Sequence[Any]:
        """Return the objects in a namespace."""
        return self.informer.list(namespace)


class QuotaMonitors:
    """All counted kinds; calls `redefined` when kinds may have been added or removed."""

    def __init__(self, informers: SharedInformerFactory, changed: Changed, redefined: Callable[[], None]) -> None:
        self._informers = informers
        self._changed = changed
        self._redefined = redefined
        self._counted: dict[Resource, QuotaMonitor] = {}
        self._handlers: dict[Resource, tuple[Informer, HandlerRegistration]] = {}

    def __iter__(self) -> Iterator[QuotaMonitor]:
        return iter(self._counted.values())

    def meters(self) -> list[QuotaEvaluator]:
        """Return the meters of all kinds."""
        return [one.meter for one in self]

    def sync(self, resources: Iterable[Resource]) -> list[QuotaMonitor]:
        """Watch exactly the countable kinds and definitions among these; returns the new counted ones."""
        wanted = [one for one in resources if is_countable(one) or one.group_resource in _DEFINITIONS]
        for resource in [one for one in self._handlers if one not in wanted]:
            self._unwatch(resource)
        new = [one for one in wanted if one not in self._handlers]
        for resource in new:
            self._watch(resource)
        return [self._counted[one] for one in new if one in self._counted]

    async def wait_synced(self) -> list[Resource]:
        """Wait until all objects are known or a timeout has passed; returns the resources that are not."""
        informers = {informer for one in self for informer in (one.informer, *one.needs)}
        waits = [asyncio.ensure_future(one.wait_synced()) for one in informers if not one.has_synced]
        try:
            if waits:
                await asyncio.wait(waits, timeout=SYNC_TIMEOUT)
        finally:
            for wait in waits:
                wait.cancel()
        return [resource for resource, one in self._counted.items() if not one.is_synced]

    def _watch(self, resource: Resource) -> None:
        if resource.group_resource in _DEFINITIONS:
            informer, handler = self._informers.for_metadata(resource), self._definitions()
        else:
            monitor = self._counted[resource] = self._monitor_of(resource)
            informer, handler = monitor.informer, self._objects(monitor, resource in FULL_OBJECT_KINDS)
        self._handlers[resource] = (informer, informer.add_handler(handler))

    def _monitor_of(self, resource: Resource) -> QuotaMonitor:
        if resource not in FULL_OBJECT_KINDS:
            return QuotaMonitor(evaluator_of(resource.group_resource), self._informers.for_metadata(resource))
        informer = self._informers.for_resource(resource)
        if resource.group_resource != DEVICE_CLAIMS:
            return QuotaMonitor(evaluator_of(resource.group_resource), informer)
        pods, classes = (self._informers.for_resource(resource_of_class(one)) for one in (Pod, DeviceClass))
        return QuotaMonitor(ResourceClaimEvaluator(_CachedDevices(classes, pods, informer)), informer, (pods, classes))

    def _objects(self, monitor: QuotaMonitor, whole: bool) -> ResourceEventHandler:
        def updated(old: Any, new: Any) -> None:
            if whole and old is not new:
                self._changed(monitor, old, new)

        return ResourceEventHandlerFuncs(on_update=updated, on_delete=lambda last: self._changed(monitor, last, None))

    def _definitions(self) -> ResourceEventHandler:
        def told(*_: Any) -> None:
            self._redefined()

        return ResourceEventHandlerFuncs(told, told, told)

    def _unwatch(self, resource: Resource) -> None:
        informer, registration = self._handlers.pop(resource)
        self._counted.pop(resource, None)
        informer.remove_handler(registration)
        self._informers.release(informer)


def is_countable(resource: Resource) -> bool:
    """Return True if objects of the resource can be counted."""
    return resource.namespaced and has_evaluator(resource.group_resource) and _NEEDED.issubset(resource.verbs)


class _CachedDevices:
    """Inputs for the usage of resource claims, from informers."""

    def __init__(self, classes: Informer, pods: Informer, claims: Informer) -> None:
        self._classes = classes
        self._pods = pods
        self._claims = claims

    def device_classes(self) -> Sequence[DeviceClass]:
        return self._classes.list()

    def pod(self, namespace: str, name: str) -> Pod | None:
        return self._pods.get(namespace, name)

    def claims(self, namespace: str) -> Sequence[ResourceClaim]:
        return self._claims.list(namespace)
