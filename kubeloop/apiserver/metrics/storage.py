# SPDX-License-Identifier: Apache-2.0
"""Metrics of stored objects, of operations on the store, and of watches.

Reads are served from memory, as upstream's are from its watch cache; writes wait for the store's log. Dashboards know
the latter as etcd's requests, so they have that name whatever the store is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubeloop.api.kinds import Resource
from kubeloop.apiserver.registry.storage import ResourceStorage, StorageRegistry
from kubeloop.apiserver.watch.counters import COMPARISON_BOUNDS, EVENT_SIZE_BOUNDS, WRITE_BOUNDS
from kubeloop.metrics import FastHistogram, Histogram, MetricRegistry

_SAMPLE: Final = 1000  # objects from which the average size is estimated
_DIGITS: Final = 10**15
_KIND: Final = ("group", "resource")
_OPERATIONS: Final = {"create": "create", "delete": "delete", "deletecollection": "delete"}
_WRITES: Final = ("create", "update", "delete")
_OPERATION: Final = ("operation", *_KIND)
_LIST_LABELS: Final = (*_KIND, "storage", "index")
_WATCH_CACHE: Final = ("watchcache", "")
_WAIT_BOUNDS: Final = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3)
_DATABASE: Final = "etcd-0"

Counts = dict[tuple[str, ...], float]
Histograms = dict[tuple[str, ...], Histogram]


class StorageMetrics:
    """Metrics computed on collection from the storages, and failed requests."""

    def __init__(self, storages: StorageRegistry, registry: MetricRegistry) -> None:
        self._storages = storages
        counter, gauge = registry.counter, registry.gauge
        gauge("apiserver_storage_objects", "resource").set_collector(self._objects_by_name)
        gauge("apiserver_resource_objects", *_KIND).set_collector(self._objects)
        gauge("apiserver_resource_size_estimate_bytes", *_KIND).set_collector(self._sizes)
        gauge("apiserver_storage_size_bytes", "storage_cluster_id").set_collector(self._database_size)
        self._errors = counter("etcd_request_errors_total", *_OPERATION)
        counter("etcd_requests_total", *_OPERATION).set_collector(self._write_counts)
        registry.histogram("etcd_request_duration_seconds", *_OPERATION, bounds=WRITE_BOUNDS).set_collector(
            self._write_durations
        )
        registry.histogram(
            "apiserver_request_timestamp_comparison_time", "code_path", bounds=COMPARISON_BOUNDS
        ).set_collector(self._comparisons)
        self._read_waits = registry.histogram("apiserver_watch_cache_read_wait_seconds", *_KIND, bounds=_WAIT_BOUNDS)
        self._register_lists(registry)
        self._register_watches(registry)

    def count_error(self, verb: str, resource: Resource) -> None:
        """Count a request for which the store could not perform a write; a conflict is none."""
        self._errors.with_labels(_OPERATIONS.get(verb, "update"), resource.group, resource.plural).value += 1

    def observe_read_wait(self, resource: Resource, seconds: float) -> None:
        """Observe the wait of a read until this server's state of a shared store is new enough."""
        self._read_waits.with_labels(resource.group, resource.plural).observe(seconds)

    def _register_lists(self, registry: MetricRegistry) -> None:
        counter = registry.counter
        counter("apiserver_storage_list_total", *_LIST_LABELS).set_collector(
            lambda: {(*kind, *_WATCH_CACHE): one.lists.count for kind, one in self._listed()}
        )
        counter("apiserver_storage_list_fetched_objects_total", *_LIST_LABELS).set_collector(
            lambda: {(*kind, *_WATCH_CACHE): one.lists.fetched for kind, one in self._listed()}
        )
        counter("apiserver_storage_list_evaluated_objects_total", *_LIST_LABELS[:3]).set_collector(
            lambda: {(*kind, _WATCH_CACHE[0]): one.lists.evaluated for kind, one in self._listed()}
        )
        counter("apiserver_storage_list_returned_objects_total", *_LIST_LABELS[:3]).set_collector(
            lambda: {(*kind, _WATCH_CACHE[0]): one.lists.returned for kind, one in self._listed()}
        )
        counter("apiserver_cache_list_total", *_KIND, "index").set_collector(
            lambda: {(*kind, ""): one.lists.count for kind, one in self._listed()}
        )
        counter("apiserver_cache_list_fetched_objects_total", *_KIND, "index").set_collector(
            lambda: {(*kind, ""): one.lists.fetched for kind, one in self._listed()}
        )
        counter("apiserver_cache_list_returned_objects_total", *_KIND).set_collector(
            lambda: {kind: one.lists.returned for kind, one in self._listed()}
        )

    def _register_watches(self, registry: MetricRegistry) -> None:
        counter, of_version = registry.counter, (*_KIND, "version")
        for name in ("apiserver_storage_events_received_total", "apiserver_watch_cache_events_received_total"):
            counter(name, *_KIND).set_collector(
                lambda: {kind: one.hub.received for kind, one in self._stored() if one.hub.subscriptions}
            )
        counter("apiserver_watch_cache_events_dispatched_total", *_KIND).set_collector(
            lambda: {kind: one.hub.dispatched for kind, one in self._stored() if one.hub.subscriptions}
        )
        counter("apiserver_watch_cache_initializations_total", *_KIND).set_collector(
            lambda: {kind: one.hub.subscriptions for kind, one in self._stored() if one.hub.subscriptions}
        )
        registry.gauge("apiserver_watch_cache_resource_version", *_KIND).set_collector(self._revisions)
        counter("apiserver_init_events_total", *_KIND).set_collector(self._initial_events)
        counter("apiserver_watch_events_total", *of_version).set_collector(
            lambda: {
                (one.resource.group, one.resource.plural, one.resource.version): one.watch_events.count
                for one in self._storages.storages()
                if one.watch_events.count
            }
        )
        registry.histogram("apiserver_watch_events_sizes", *of_version, bounds=EVENT_SIZE_BOUNDS).set_collector(
            lambda: {
                (one.resource.group, one.resource.plural, one.resource.version): one.watch_events.sizes
                for one in self._storages.storages()
                if one.watch_events.sizes.total
            }
        )

    def _stored(self) -> Iterator[tuple[tuple[str, ...], ResourceStorage]]:
        """Yield group, resource and storage of everything that is stored, once for all its versions."""
        counted: set[str] = set()
        for storage in self._storages.storages():
            resource = storage.resource
            if resource.storage_override is None and resource.key_prefix not in counted:
                counted.add(resource.key_prefix)
                yield (resource.group, resource.plural), storage

    def _listed(self) -> Iterator[tuple[tuple[str, ...], ResourceStorage]]:
        return ((kind, storage) for kind, storage in self._stored() if storage.lists.count)

    def _count(self, storage: ResourceStorage) -> int:
        found = self._storages.store.range(storage.resource.key_prefix, limit=1)
        return len(found.records) + found.remaining

    def _objects(self) -> Counts:
        return {kind: self._count(storage) for kind, storage in self._stored()}

    def _objects_by_name(self) -> Counts:
        return {(storage.resource.group_resource,): self._count(storage) for _, storage in self._stored()}

    def _sizes(self) -> Counts:
        found: Counts = {}
        for kind, storage in self._stored():
            page = self._storages.store.range(storage.resource.key_prefix, limit=_SAMPLE)
            sampled = len(page.records)
            average = sum(len(one.value) for one in page.records) / sampled if sampled else 0
            found[kind] = int(average * (sampled + page.remaining))
        return found

    def _database_size(self) -> Counts:
        size = self._storages.store.file_bytes
        return {(_DATABASE,): size} if size else {}

    def _write_counts(self) -> Counts:
        return {labels: sum(one.counts) for labels, one in self._write_durations().items()}

    def _write_durations(self) -> Histograms:
        """Return the durations of writes; those of all versions of a resource together."""
        found: Histograms = {}
        for storage in self._storages.storages():
            resource, writes = storage.resource, storage.writes
            for operation in _WRITES:
                series: FastHistogram = getattr(writes, operation)
                if series.count:
                    added = series.histogram()
                    labels = (operation, resource.group, resource.plural)
                    found.setdefault(labels, Histogram(WRITE_BOUNDS)).add(added.counts, added.total)
        return found

    def _comparisons(self) -> Histograms:
        found: Histograms = {}
        for storage in self._storages.storages():
            for outcome, series in storage.writes.comparisons.items():
                added = series.histogram()
                found.setdefault((outcome,), Histogram(COMPARISON_BOUNDS)).add(added.counts, added.total)
        return found

    def _revisions(self) -> Counts:
        revision = self._storages.store.revision % _DIGITS
        return {kind: revision for kind, storage in self._stored() if storage.hub.subscriptions}

    def _initial_events(self) -> Counts:
        return {kind: one.hub.initial_events for kind, one in self._stored() if one.hub.subscriptions}
