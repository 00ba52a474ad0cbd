"""CRD controller: watches CustomResourceDefinitions and serves their resources as soon as they are committed."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kubeloop.api import codec
from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinition
from kubeloop.apiserver.admission.lookup import RegistryLookup
from kubeloop.apiserver.apiextensions.definitions import CRDStore
from kubeloop.apiserver.apiextensions.finalizer import CRDFinalizer
from kubeloop.apiserver.apiextensions.lazy import Publish
from kubeloop.apiserver.apiextensions.naming_conditions import (
    CLEANUP_FINALIZER,
    Names,
    NamesInUse,
    is_established,
    status_with_names,
)
from kubeloop.apiserver.apiextensions.openapi import PublishedDefinitions
from kubeloop.apiserver.apiextensions.resource import CustomResource, resources_of, version_priority_key
from kubeloop.apiserver.apiextensions.storage import CustomStorage
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.apiserver.watch.hub import WatchHub
from kubeloop.clock import Clock
from kubeloop.store import Record, StoreEvent

if TYPE_CHECKING:
    from kubeloop.apiserver.apiextensions.conversion.cache import ConversionMetrics, Conversions
    from kubeloop.apiserver.webhook_client.client_config import WebhookClients

log = logging.getLogger(__name__)


class _ServedCRD(NamedTuple):
    """Last seen state of a CRD; `shape` is what its storages were made from."""

    group: str
    names: Names
    shape: tuple[object, ...]
    storages: tuple[CustomStorage, ...]


class _ReusedHubs:
    """Watch hubs of a CRD's storages, which outlive these: watches continue when the CRD changes.

    All versions share one, unless a webhook converts: then each has its own, whose watchers wait for conversion.
    """

    def __init__(self, storages: Sequence[CustomStorage]) -> None:
        self._before = {storage.resource.version: storage.hub for storage in storages}
        self._converting = any(storage.conversion is not None for storage in storages)
        self._kept: list[WatchHub] = []

    def take(self, resource: CustomResource) -> WatchHub | None:
        """Return the hub for a version; None if it needs a new one."""
        if resource.conversion is None:
            shared = [] if self._converting else list(self._before.values())
            return next(iter((*self._kept, *shared)), None)
        hub = self._before.get(resource.version) if self._converting else None
        if hub is not None:
            hub.conversion = resource.conversion  # type: ignore[attr-defined]  # a ConvertingHub
        return hub

    def keep(self, storage: CustomStorage) -> None:
        self._kept.append(storage.hub)

    def close_others(self) -> None:
        for hub in self._before.values():
            if hub not in self._kept:
                hub.close()


class CRDController:
    """All custom resources of one server."""

    def __init__(self, registry: StorageRegistry, clock: Clock, publish: Publish) -> None:
        self._registry = registry
        self._definitions = CRDStore(registry, clock)
        self._publish = publish
        self._known: dict[str, _ServedCRD] = {}
        self._ending: dict[str, CRDFinalizer] = {}
        self._clock = clock
        self._callees: WebhookClients | None = None
        self._conversion_metrics: ConversionMetrics | None = None

    def load(self) -> None:
        """Serve the CRDs that exist already."""
        for record in self._definitions.present():
            self._consider_safely(record)
        self._show()

    def follow(self, events: Sequence[StoreEvent]) -> None:
        """Handle changes of CRDs."""
        before = dict(self._known)
        for event in events:
            if event.record is not None:
                self._consider_safely(event.record)
            elif event.previous is not None:
                self._forget(event.previous)
        if before != self._known:
            self._show()

    def close(self) -> None:
        """Cancel the deletion tasks, and close connections to conversion webhooks."""
        for ending in self._ending.values():
            ending.cancel()
        if self._callees is not None:
            self._callees.close()

    def metric_lines(self) -> Iterator[str]:
        """Yield the metrics of conversion webhooks."""
        if self._conversion_metrics is not None:
            yield from self._conversion_metrics.lines()

    def _consider_safely(self, record: Record) -> None:
        """Serve a CRD; log the error of one that can't be served, so that others are not affected."""
        try:
            self._consider(record)
        except Exception:
            log.exception("%s cannot be served", record.key)

    def _consider(self, record: Record) -> None:
        definition = self._definitions.decode(record)
        name = definition.metadata.name
        known = self._known.get(name)
        taken = NamesInUse.of(
            other.names for at, other in self._known.items() if other.group == definition.spec.group and at != name
        )
        status = status_with_names(definition, taken, self._definitions.now)
        if status != definition.status and definition.metadata.deletion_timestamp is None:
            self._definitions.write_status(record, status)
        served = is_established(status)
        shape = _shape_of(definition, status.accepted_names, served)
        if known is None or known.shape != shape:
            storages = self._storages(definition, status.accepted_names, record.mod_revision) if served else ()
            self._known[name] = _ServedCRD(definition.spec.group, status.accepted_names, shape, storages)
        if definition.metadata.deletion_timestamp is not None and CLEANUP_FINALIZER in definition.metadata.finalizers:
            self._end(name)

    def _storages(self, definition: CustomResourceDefinition, names: Names, since: int) -> tuple[CustomStorage, ...]:
        known = self._known.get(definition.metadata.name)
        hubs = _ReusedHubs(known.storages if known is not None else ())
        terminating = definition.metadata.deletion_timestamp is not None
        storages: list[CustomStorage] = []
        for resource in resources_of(definition, names, self._conversions(definition)):
            storage = CustomStorage(self._registry.store, resource, hubs.take(resource), since, terminating)
            hubs.keep(storage)
            storages.append(storage)
        hubs.close_others()
        return tuple(storages)

    def _conversions(self, definition: CustomResourceDefinition) -> Conversions | None:
        conversion = definition.spec.conversion
        if conversion is None or conversion.strategy != "Webhook" or conversion.webhook is None:
            return None
        from kubeloop.apiserver.apiextensions.conversion.cache import (  # imported here: few CRDs have webhooks
            ConversionMetrics,
            Conversions,
        )
        from kubeloop.apiserver.webhook_client.client_config import WebhookClients

        if self._callees is None:
            self._callees = WebhookClients(RegistryLookup(self._registry), self._clock.random())
        if self._conversion_metrics is None:
            self._conversion_metrics = ConversionMetrics()
        return Conversions(conversion.webhook, self._callees, self._clock, self._conversion_metrics)

    def _forget(self, record: Record) -> None:
        """Stop serving a deleted CRD, and reconsider those that conflicted with its names."""
        name = record.key.rpartition("/")[2]
        known = self._known.pop(name, None)
        ending = self._ending.pop(name, None)
        if ending is not None:
            ending.cancel()
        if known is None:
            return
        for storage in known.storages:
            storage.hub.close()
        for other in [at for at, one in self._known.items() if one.group == known.group]:
            newest = self._definitions.newest(other)
            if newest is not None:
                self._consider_safely(newest)

    def _end(self, name: str) -> None:
        if name in self._ending:
            return
        known = self._known[name]
        ending = CRDFinalizer(self._registry.store, self._definitions, name, known.storages, self._clock)
        self._ending[name] = ending
        ending.start(asyncio.get_running_loop())

    def _show(self) -> None:
        storages = [storage for known in self._known.values() for storage in known.storages]
        self._registry.serve_custom(storages)
        resources = [storage.resource for storage in storages if isinstance(storage.resource, CustomResource)]
        resources.sort(key=lambda one: (one.group, version_priority_key(one.version)))
        self._publish(resources, partial(PublishedDefinitions, resources))


def _shape_of(definition: CustomResourceDefinition, names: Names, served: bool) -> tuple[object, ...]:
    """Return the state whose change requires new storages; it has a digest of the versions, as schemas are large."""
    versions = hashlib.blake2b(codec.encode(definition.spec.versions), digest_size=16).digest()
    return served, names, versions, definition.spec.conversion, definition.metadata.deletion_timestamp is not None
