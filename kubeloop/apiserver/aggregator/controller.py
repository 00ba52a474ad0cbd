# SPDX-License-Identifier: Apache-2.0
"""APIService controller: maintains a remote and its availability controller for each APIService with a Service."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from kubeloop.api.generated.apiregistration_v1 import APIService
from kubeloop.api.meta import object_meta
from kubeloop.apiserver.aggregator.availability import LOCAL, AvailableCondition, is_available, with_available_condition
from kubeloop.apiserver.aggregator.availability_controller import AvailabilityController
from kubeloop.apiserver.aggregator.discovery_cache import RemoteVersion, sorted_versions
from kubeloop.apiserver.aggregator.proxy_identity import ProxyIdentity
from kubeloop.apiserver.aggregator.remote import RemoteAPIServer
from kubeloop.apiserver.aggregator.service_resolver import ServiceResolver
from kubeloop.apiserver.registry.internal_status import write_status
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import Clock
from kubeloop.metrics import MetricRegistry
from kubeloop.store import Record, StoreEvent

# Publishes the versions that extension API servers provide.
Publish = Callable[[Sequence[RemoteVersion]], None]


class APIServiceController:
    """All APIServices of one server; `remotes` are the proxied ones, by group and version."""

    def __init__(
        self,
        registry: StorageRegistry,
        clock: Clock,
        identity: ProxyIdentity | None,
        by_endpoint: bool,
        publish: Publish,
        metrics: MetricRegistry,
    ) -> None:
        self._storage = registry.storage_named("apiregistration.k8s.io", "v1", "apiservices")
        self._clock = clock
        self._identity = identity
        self._by_endpoint = by_endpoint
        self._publish = publish
        self._service_resolver = ServiceResolver(registry)
        self._availability_controllers: dict[str, AvailabilityController] = {}
        self._published_versions: Sequence[RemoteVersion] = ()
        self.remotes: dict[tuple[str, str], RemoteAPIServer] = {}
        self._unavailable_counter = metrics.counter("aggregator_unavailable_apiservice_total", "name", "reason")
        store = registry.store
        self._subscriptions = [
            store.subscribe(at, store.revision, self._wake) for at in self._service_resolver.prefixes
        ]

    def load(self) -> None:
        """Add the APIServices that exist already."""
        for record in self._storage.store.range(self._storage.prefix("")).records:
            self._add_or_update(record)
        self._publish_versions()

    def on_events(self, events: Sequence[StoreEvent]) -> None:
        """Handle changes of APIServices."""
        for event in events:
            if event.record is not None:
                self._add_or_update(event.record)
            else:
                self._drop(event.key.rpartition("/")[2])
        self._publish_versions()

    def close(self) -> None:
        """Cancel the subscriptions, and drop all remotes."""
        for subscription in self._subscriptions:
            subscription.cancel()
        for name in tuple(self._availability_controllers):
            self._drop(name)

    def _add_or_update(self, record: Record) -> None:
        api: APIService = self._storage.serializer.decode_record(record)
        name = api.metadata.name
        controller = self._availability_controllers.get(name)
        if api.spec.service is None:
            self._drop(name)
            self._write(name, LOCAL)
        elif controller is not None and controller.remote.api.spec == api.spec:
            controller.remote.api, controller.remote.available = api, is_available(api)
        else:
            self._drop(name)
            chance = self._clock.random()
            remote = RemoteAPIServer(api, self._identity, self._service_resolver, self._by_endpoint, chance)
            self._availability_controllers[name] = AvailabilityController(
                remote, self._service_resolver, self._write, self._publish_versions
            )

    def _drop(self, name: str) -> None:
        controller = self._availability_controllers.pop(name, None)
        if controller is not None:
            controller.close()

    def _publish_versions(self) -> None:
        """Publish the versions of remotes if they have changed."""
        controllers = self._availability_controllers.values()
        self.remotes = {(one.remote.group, one.remote.version): one.remote for one in controllers}
        versions = sorted_versions(one.version for one in controllers)
        if versions != self._published_versions:
            self._published_versions = versions
            self._publish(versions)

    def _wake(self, events: Sequence[StoreEvent]) -> None:
        """Recheck the remotes in the namespaces of changed Services or EndpointSlices."""
        namespaces = {event.key.rsplit("/", 2)[1] for event in events}
        for controller in self._availability_controllers.values():
            if controller.namespace in namespaces:
                controller.wake()

    def _write(self, name: str, verdict: AvailableCondition) -> None:
        """Write the Available condition; a concurrent change triggers another check."""
        record = self._storage.peek("", name)
        if record is None:
            return
        now = object_meta.time_of(self._clock.now())

        def judged(api: APIService) -> APIService:
            if verdict.status != "True" and _was_available(api):
                self._unavailable_counter.with_labels(name, verdict.reason).value += 1
            return replace(api, status=with_available_condition(api, verdict, now))

        write_status(self._storage, record, judged, self._clock)


def _was_available(api: APIService) -> bool:
    """Return True if the APIService is available, or has no condition yet."""
    return not api.status.conditions or is_available(api)
