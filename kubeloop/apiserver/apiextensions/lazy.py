"""Starts to serve custom resources when the first CRD appears; until then, nothing is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kubeloop.api.kinds import Resource
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import Clock
from kubeloop.store import StoreEvent, Subscription

if TYPE_CHECKING:
    from kubeloop.apiserver.apiextensions.controller import CRDController

# Supplies the definitions of served types for OpenAPI, called when a document is first made.
DefinitionsSource = Callable[[], Mapping[str, Mapping[str, Any]]]
# Publishes the custom resources to the server, in the order of discovery.
Publish = Callable[[Sequence[Resource], DefinitionsSource], None]

_PREFIX = "/registry/apiextensions.k8s.io/customresourcedefinitions/"


class LazyCRDs:
    """Subscription to CRDs, from the server's start to its end."""

    def __init__(self, registry: StorageRegistry, clock: Clock, publish: Publish) -> None:
        self._registry = registry
        self._clock = clock
        self._publish = publish
        self._service: CRDController | None = None
        self._subscription: Subscription | None = None

    def start(self) -> None:
        """Subscribe to CRDs; load those that exist."""
        store = self._registry.store
        found = store.range(_PREFIX, limit=1)
        if found.records:
            self._begun().load()
        self._subscription = store.subscribe(_PREFIX, store.revision, self._follow)

    def close(self) -> None:
        """Cancel the subscription, and close the controller if it was started."""
        if self._subscription is not None:
            self._subscription.cancel()
        if self._service is not None:
            self._service.close()

    def metric_lines(self) -> Iterator[str]:
        """Yield the metrics of conversion webhooks."""
        if self._service is not None:
            yield from self._service.metric_lines()

    def _follow(self, events: Sequence[StoreEvent]) -> None:
        self._begun().follow(events)

    def _begun(self) -> CRDController:
        if self._service is None:
            from kubeloop.apiserver.apiextensions.controller import CRDController

            self._service = CRDController(self._registry, self._clock, self._publish)
        return self._service
