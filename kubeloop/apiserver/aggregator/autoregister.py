# SPDX-License-Identifier: Apache-2.0
"""Maintains an APIService for every group and version that CustomResourceDefinitions serve.

While its automanaged label is set, a deleted one is recreated, and a changed one is restored. Remove the label to
serve such a version by an extension API server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubeloop.api.features.gates import Features
from kubeloop.api.meta import object_meta
from kubeloop.apiserver.bootstrap.writer import BootstrapWriter
from kubeloop.apiserver.registry.internal_status import write_change
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import Clock
from kubeloop.store import Record, StoreConflict, StoreEvent, Subscription

log = logging.getLogger(__name__)

_DEFINITIONS: Final = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
_SERVICES: Final = "/registry/apiregistration.k8s.io/apiservices/"
_KIND: Final = "apiservices.apiregistration.k8s.io"
# Seconds before a retry after any failed write.
_RETRY_SECONDS: Final = 1.0

GroupVersion = tuple[str, str]


class _Version(msgspec.Struct):
    name: str = ""
    served: bool = False


class _Spec(msgspec.Struct):
    group: str = ""
    versions: tuple[_Version, ...] = ()


class _Definition(msgspec.Struct):
    spec: _Spec


_READ: Final = msgspec.json.Decoder(_Definition)


class AutoRegistration:
    """Watches CRDs and APIServices; loads nothing until the first CRD appears.

    `_served` are the versions of each CRD; `_due` the names of APIServices that are to be reconciled.
    """

    def __init__(self, registry: StorageRegistry, clock: Clock, features: Features) -> None:
        self._registry = registry
        self._clock = clock
        self._bootstrap_writer = BootstrapWriter(registry, clock, features)
        self._served: dict[str, tuple[GroupVersion, ...]] = {}
        self._queue: set[str] = set()
        self._timer: asyncio.Handle | None = None
        self._subscriptions: list[Subscription] = []

    def start(self) -> None:
        """Subscribe to CRDs and APIServices."""
        store = self._registry.store
        if not any(one.resource.group_resource == _KIND for one in self._registry.storages()):
            return  # the server is configured without this resource
        for record in store.range(_DEFINITIONS).records:
            self._served[record.key] = _served_by(record)
        followed = ((_DEFINITIONS, self._definitions_changed), (_SERVICES, self._services_changed))
        self._subscriptions = [store.subscribe(prefix, store.revision, follow) for prefix, follow in followed]

    def register_virtual(self, group: str, version: str) -> None:
        """Create the APIService of a virtual group, unless there is one: an extension API server may serve it."""
        from kubeloop.apiserver.bootstrap.api_services import virtual_api_service

        storage = self._registry.storage_named("apiregistration.k8s.io", "v1", "apiservices")
        wanted = virtual_api_service(group, version, object_meta.time_of(self._clock.now()))
        write = self._bootstrap_writer.write(storage.resource, wanted)
        if write is not None:
            write.add_done_callback(lambda done: done.cancelled() or done.exception())

    def catch_up(self) -> None:
        """Enqueue all APIServices and CRD versions, after a start."""
        kept = [one.key.rpartition("/")[2] for one in self._registry.store.range(_SERVICES).records]
        self._enqueue([*self._wanted(), *kept])

    def close(self) -> None:
        """Cancel the subscriptions and the timer."""
        for subscription in self._subscriptions:
            subscription.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def _definitions_changed(self, events: Sequence[StoreEvent]) -> None:
        for event in events:
            before = self._served.pop(event.key, ())
            if event.record is not None:
                self._served[event.key] = _served_by(event.record)
            after = self._served.get(event.key, ())
            if before != after:
                self._enqueue(f"{version}.{group}" for group, version in {*before, *after})

    def _services_changed(self, events: Sequence[StoreEvent]) -> None:
        if self._served:
            self._enqueue(event.key.rpartition("/")[2] for event in events)

    def _enqueue(self, names: Iterable[str]) -> None:
        self._queue.update(names)
        if self._queue and self._timer is None:
            self._timer = asyncio.get_running_loop().call_soon(self._reconcile)

    def _wanted(self) -> dict[str, GroupVersion]:
        return {f"{version}.{group}": (group, version) for served in self._served.values() for group, version in served}

    def _reconcile(self) -> None:
        self._timer = None
        due, self._queue = self._queue, set()
        wanted = self._wanted()
        for name in sorted(due):
            try:
                self._reconcile_one(name, wanted.get(name))
            except StoreConflict:
                log.debug("another server wrote APIService %s first", name)  # their change triggers another sync

    def _reconcile_one(self, name: str, wanted: GroupVersion | None) -> None:
        storage = self._registry.storage_named("apiregistration.k8s.io", "v1", "apiservices")
        record = storage.peek("", name)
        if record is None:
            if wanted is not None:
                self._watch(name, self._bootstrap_writer.write(storage.resource, self._new_api_service(*wanted)))
            return
        if not _may_be_automanaged(record):
            return
        from kubeloop.apiserver.bootstrap.api_services import (
            AUTO_REGISTER_LABEL,
            MANAGED_CONTINUOUSLY,
            crd_api_service_spec,
        )

        current: Any = storage.serializer.decode_record(record)
        if current.metadata.labels.get(AUTO_REGISTER_LABEL) != MANAGED_CONTINUOUSLY:
            return
        if wanted is None:
            self._watch(name, storage.store.write(record.key, None, record.mod_revision))
        elif current.spec != crd_api_service_spec(*wanted):
            write_change(storage, record, lambda one: replace(one, spec=crd_api_service_spec(*wanted)), self._clock)

    def _new_api_service(self, group: str, version: str) -> Any:
        from kubeloop.apiserver.bootstrap.api_services import crd_api_service

        return crd_api_service(group, version, object_meta.time_of(self._clock.now()))

    def _watch(self, name: str, write: asyncio.Future[StoreEvent] | None) -> None:
        if write is not None:
            write.add_done_callback(lambda done: self._on_written(name, done))

    def _on_written(self, name: str, write: asyncio.Future[StoreEvent]) -> None:
        if write.cancelled() or write.exception() is None:
            return
        self._queue.add(name)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._reconcile)


def _served_by(record: Record) -> tuple[GroupVersion, ...]:
    try:
        spec = _READ.decode(record.value).spec
    except msgspec.DecodeError:
        return ()
    return tuple((spec.group, version.name) for version in spec.versions if version.served)


def _may_be_automanaged(record: Record) -> bool:
    """Return True if the bytes contain the automanaged label with "true"; most APIServices have "onstart"."""
    return b'"kube-aggregator.kubernetes.io/automanaged":"true"' in record.value
