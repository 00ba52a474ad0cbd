# SPDX-License-Identifier: Apache-2.0
"""Metrics of the informers of a component, under upstream's names: processing of events, and versions of the caches.

An informer applies each batch of events at once, so it has no queue whose length could be measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from kubeloop.api.kinds import Resource
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.objects.versions import version_number

_LABELS: Final = ("name", "group", "version", "resource")
_BOUNDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_DIGITS: Final = 10**15  # a float shows fewer than 16 digits exactly


class VersionedCache(Protocol):
    """Cache of a collection, with the resourceVersion that it shows."""

    @property
    def resource(self) -> Resource:
        """Resource of the collection."""

    @property
    def version(self) -> str:
        """ResourceVersion of the cache; empty before the first list."""


class InformerMetrics:
    """Metrics of all informers of one component."""

    def __init__(self, registry: MetricRegistry, component: str) -> None:
        self._component = component
        self._caches: list[VersionedCache] = []
        self._latencies = registry.histogram("informer_processing_latency_seconds", *_LABELS, bounds=_BOUNDS)
        registry.gauge("informer_store_resource_version", *_LABELS).set_collector(self._versions)

    def observer_of(self, resource: Resource) -> Callable[[float, int], None]:
        """Return the function that observes the processing of a resource's events."""
        return self._latencies.with_labels(*self._labels(resource)).observe

    def add(self, cache: VersionedCache) -> None:
        """Report the version of a cache from now on."""
        self._caches.append(cache)

    def remove(self, cache: VersionedCache) -> None:
        """Report the version of a cache no longer."""
        self._caches.remove(cache)

    def _versions(self) -> dict[tuple[str, ...], float]:
        """Return the least significant digits of the versions; of several caches of a resource, the oldest counts."""
        found: dict[tuple[str, ...], float] = {}
        for cache in self._caches:
            if cache.version:
                labels, version = self._labels(cache.resource), version_number(cache.version) % _DIGITS
                found[labels] = min(found.get(labels, version), version)
        return found

    def _labels(self, resource: Resource) -> tuple[str, ...]:
        return self._component, resource.group, resource.version, resource.plural
