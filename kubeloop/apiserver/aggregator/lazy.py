# SPDX-License-Identifier: Apache-2.0
"""Starts the aggregator when the first APIService with a Service appears; until then, nothing is loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kubeloop.apiserver.registry.lazy_subscription import LazySubscription
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import Clock
from kubeloop.metrics import MetricRegistry
from kubeloop.store import Record

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


class LazyAggregator(LazySubscription["APIServiceController"]):
    """Subscription to APIServices."""

    def __init__(
        self,
        registry: StorageRegistry,
        clock: Clock,
        config: AggregatorConfig,
        publish: Publish,
        metrics: MetricRegistry,
    ) -> None:
        super().__init__(registry.store, (_PREFIX,), self._make_controller, _has_service)
        self._registry = registry
        self._clock = clock
        self._config = config
        self._publish = publish
        self._metrics = metrics
        metrics.gauge("aggregator_unavailable_apiservice", "name").set_collector(self._unavailable)

    @property
    def remotes(self) -> Mapping[tuple[str, str], RemoteAPIServer]:
        """Proxied group versions and their remotes; empty without extension API servers."""
        return self.consumer.remotes if self.consumer is not None else {}

    def remote_for(self, path: str) -> RemoteAPIServer | None:
        """Return the remote that serves a path, or None for this server."""
        if not self.remotes or not path.startswith("/api"):
            return None
        parts = path.split("/", 4)
        if parts[1] == "apis" and len(parts) > 3:
            return self.remotes.get((parts[2], parts[3]))
        return self.remotes.get(("", parts[2])) if parts[1] == "api" and len(parts) > 2 else None

    def _unavailable(self) -> dict[tuple[str, ...], float]:
        """Return 1 for APIServices that are unavailable, 0 for others."""
        return {
            (record.key.removeprefix(_PREFIX),): float(_IS_UNAVAILABLE.search(record.value) is not None)
            for record in self._registry.store.range(_PREFIX).records
        }

    def _make_controller(self) -> APIServiceController:
        from kubeloop.apiserver.aggregator.controller import APIServiceController
        from kubeloop.apiserver.aggregator.proxy_identity import ProxyIdentity

        config = self._config
        identity = ProxyIdentity(config.certificate, config.key) if config.certificate and config.key else None
        return APIServiceController(
            self._registry, self._clock, identity, config.by_endpoint, self._publish, self._metrics
        )


def _has_service(record: Record) -> bool:
    return _REMOTE in record.value or _LOCAL not in record.value
