"""Starts the aggregator when the first APIService with a Service appears; until then, nothing is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kubeloop.apiserver.measures import GaugeFamily
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import Clock
from kubeloop.store import Record, StoreEvent, Subscription

if TYPE_CHECKING:
    from kubeloop.apiserver.aggregator.controller import APIServiceController, Publish
    from kubeloop.apiserver.aggregator.remote import RemoteAPIServer

_PREFIX = "/registry/apiregistration.k8s.io/apiservices/"
_LOCAL = b'"reason":"Local"'
_REMOTE = b'"service":{'
_IS_UNAVAILABLE = re.compile(rb'"conditions":\[[^]]*"status":"False"')


class AggregatorConfig:
    """Client certificate for extension API servers, and the choice between cluster IPs and endpoints."""

    __slots__ = ("by_endpoint", "certificate", "key")

    def __init__(self, certificate: Path | None = None, key: Path | None = None, by_endpoint: bool = True) -> None:
        self.certificate = certificate
        self.key = key
        self.by_endpoint = by_endpoint


class LazyAggregator:
    """Subscription to APIServices, from the server's start to its end."""

    def __init__(self, registry: StorageRegistry, clock: Clock, config: AggregatorConfig, publish: Publish) -> None:
        self._registry = registry
        self._clock = clock
        self._config = config
        self._publish = publish
        self._services: APIServiceController | None = None
        self._subscription: Subscription | None = None

    @property
    def remotes(self) -> Mapping[tuple[str, str], RemoteAPIServer]:
        """Proxied group versions and their remotes; empty without extension API servers."""
        return self._services.remotes if self._services is not None else {}

    def start(self) -> None:
        """Subscribe to APIServices; start the aggregator if one needs it already."""
        store = self._registry.store
        if any(_has_service(record) for record in store.range(_PREFIX).records):
            self._begin()
        self._subscription = store.subscribe(_PREFIX, store.revision, self._follow)

    def remote_for(self, path: str) -> RemoteAPIServer | None:
        """Return the remote that serves a path, or None for this server."""
        if not self.remotes or not path.startswith("/api"):
            return None
        parts = path.split("/", 4)
        if parts[1] == "apis" and len(parts) > 3:
            return self.remotes.get((parts[2], parts[3]))
        return self.remotes.get(("", parts[2])) if parts[1] == "api" and len(parts) > 2 else None

    def close(self) -> None:
        """Cancel the subscription and close the aggregator."""
        if self._subscription is not None:
            self._subscription.cancel()
        if self._services is not None:
            self._services.close()

    def metric_lines(self) -> Iterator[str]:
        """Yield the metrics of unavailable APIServices: current state, and counts by reason."""
        gauges = GaugeFamily("aggregator_unavailable_apiservice", "name")
        for record in self._registry.store.range(_PREFIX).records:
            gauges.set(float(_IS_UNAVAILABLE.search(record.value) is not None), record.key.removeprefix(_PREFIX))
        yield from gauges.lines()
        if self._services is not None:
            yield from self._services.outages.lines()

    def _follow(self, events: Sequence[StoreEvent]) -> None:
        if self._services is not None:
            self._services.follow(events)
        elif any(event.record is not None and _has_service(event.record) for event in events):
            self._begin()

    def _begin(self) -> None:
        from kubeloop.apiserver.aggregator.controller import APIServiceController
        from kubeloop.apiserver.aggregator.proxy_identity import ProxyIdentity

        config = self._config
        identity = ProxyIdentity(config.certificate, config.key) if config.certificate and config.key else None
        services = APIServiceController(self._registry, self._clock, identity, config.by_endpoint, self._publish)
        self._services = services
        services.load()


def _has_service(record: Record) -> bool:
    return _REMOTE in record.value or _LOCAL not in record.value
