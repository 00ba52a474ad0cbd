# SPDX-License-Identifier: Apache-2.0
"""CRD controller: watches CustomResourceDefinitions and serves their resources as soon as they are committed."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
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
from kubeloop.metrics import MetricRegistry
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

    def __init__(self, registry: StorageRegistry, clock: Clock, publish: Publish, metrics: MetricRegistry) -> None:
        self._registry = registry
        self._metrics = metrics
        self._definitions = CRDStore(registry, clock)
        self._publish = publish
        self._served: dict[str, _ServedCRD] = {}
        self._finalizers: dict[str, CRDFinalizer] = {}
        self._clock = clock
        self._webhook_clients: WebhookClients | None = None
        self._conversion_metrics: ConversionMetrics | None = None

    def load(self) -> None:
        """Serve the CRDs that exist already."""
        for record in self._definitions.present():
            self._sync_safely(record)
        self._publish_resources()

    def on_events(self, events: Sequence[StoreEvent]) -> None:
        """Handle changes of CRDs."""
        before = dict(self._served)
        for event in events:
            if event.record is not None:
                self._sync_safely(event.record)
            elif event.previous is not None:
                self._remove(event.previous)
        if before != self._served:
            self._count_regenerations(before)
            self._publish_resources()

    def close(self) -> None:
        """Cancel the deletion tasks, and close connections to conversion webhooks."""
        for ending in self._finalizers.values():
            ending.cancel()
        if self._webhook_clients is not None:
            self._webhook_clients.close()

    def _count_regenerations(self, before: Mapping[str, _ServedCRD]) -> None:
        """Count the changes of OpenAPI documents by CRD and reason."""
        changed = self._metrics.counter("apiextensions_openapi_v2_regeneration_count", "crd", "reason")
        of_versions = self._metrics.counter(
            "apiextensions_openapi_v3_regeneration_count", "group", "version", "crd", "reason"
        )
        for name in {*before, *self._served}:
            old, new = before.get(name), self._served.get(name)
            if old == new:
                continue
            reason = "remove" if new is None else "add" if old is None else "update"
            changed.with_labels(name, reason).value += 1
            for storage in (*(old.storages if new is None and old is not None else ()), *(new.storages if new else ())):
                resource = storage.resource
                of_versions.with_labels(resource.group, resource.version, name, reason).value += 1

    def _sync_safely(self, record: Record) -> None:
        """Serve a CRD; log the error of one that can't be served, so that others are not affected."""
        try:
            self._sync(record)
        except Exception:
            log.exception("unable to serve %s", record.key)

    def _sync(self, record: Record) -> None:
        definition = self._definitions.decode(record)
        name = definition.metadata.name
        known = self._served.get(name)
        taken = NamesInUse.of(
            other.names for at, other in self._served.items() if other.group == definition.spec.group and at != name
        )
        status = status_with_names(definition, taken, self._definitions.now)
        if status != definition.status and definition.metadata.deletion_timestamp is None:
            self._definitions.write_status(record, status)
        served = is_established(status)
        shape = _shape_of(definition, status.accepted_names, served)
        if known is None or known.shape != shape:
            storages = self._storages(definition, status.accepted_names, record.mod_revision) if served else ()
            self._served[name] = _ServedCRD(definition.spec.group, status.accepted_names, shape, storages)
        if definition.metadata.deletion_timestamp is not None and CLEANUP_FINALIZER in definition.metadata.finalizers:
            self._start_finalizer(name)

    def _storages(self, definition: CustomResourceDefinition, names: Names, since: int) -> tuple[CustomStorage, ...]:
        known = self._served.get(definition.metadata.name)
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

        if self._webhook_clients is None:
            self._webhook_clients = WebhookClients(RegistryLookup(self._registry), self._clock.random())
        if self._conversion_metrics is None:
            self._conversion_metrics = ConversionMetrics(self._metrics)
        return Conversions(conversion.webhook, self._webhook_clients, self._clock, self._conversion_metrics)

    def _remove(self, record: Record) -> None:
        """Stop serving a deleted CRD, and reconsider those that conflicted with its names."""
        name = record.key.rpartition("/")[2]
        known = self._served.pop(name, None)
        ending = self._finalizers.pop(name, None)
        if ending is not None:
            ending.cancel()
        if known is None:
            return
        for storage in known.storages:
            storage.hub.close()
        for other in [at for at, one in self._served.items() if one.group == known.group]:
            newest = self._definitions.newest(other)
            if newest is not None:
                self._sync_safely(newest)

    def _start_finalizer(self, name: str) -> None:
        if name in self._finalizers:
            return
        known = self._served[name]
        ending = CRDFinalizer(self._registry.store, self._definitions, name, known.storages, self._clock)
        self._finalizers[name] = ending
        ending.start(asyncio.get_running_loop())

    def _publish_resources(self) -> None:
        storages = [storage for known in self._served.values() for storage in known.storages]
        self._registry.serve_custom(storages)
        resources = [storage.resource for storage in storages if isinstance(storage.resource, CustomResource)]
        resources.sort(key=lambda one: (one.group, version_priority_key(one.version)))
        self._publish(resources, partial(PublishedDefinitions, resources))


def _shape_of(definition: CustomResourceDefinition, names: Names, served: bool) -> tuple[object, ...]:
    """Return the state whose change requires new storages; it has a digest of the versions, as schemas are large."""
    versions = hashlib.blake2b(codec.encode(definition.spec.versions), digest_size=16).digest()
    return served, names, versions, definition.spec.conversion, definition.metadata.deletion_timestamp is not None
