# SPDX-License-Identifier: Apache-2.0
"""System objects: written before the server is ready, and brought back when they are deleted.

ensure_all (start) ──▶ post-start hooks finished ──▶ start_reconcilers: periodic, at upstream's intervals
Roles, priority classes and APIServices are written at the start only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Any, Final

from msgspec.structs import replace as struct_replace

from kubeloop.api.codec import decode
from kubeloop.api.generated.networking_v1 import IPAddress, ServiceCIDR
from kubeloop.api.kinds import Resource
from kubeloop.api.meta import object_meta
from kubeloop.apiserver.background.periodic import PeriodicJob
from kubeloop.apiserver.bootstrap import (
    BootstrapOptions,
    access_objects,
    api_service_objects,
    endpoint_objects,
    essential_objects,
    flow_control_objects,
    namespace_objects,
    service_cidr_objects,
    service_objects,
)
from kubeloop.apiserver.bootstrap.flow_control_reconciliation import GROUP as FLOW_CONTROL
from kubeloop.apiserver.bootstrap.flow_control_reconciliation import is_autoupdated
from kubeloop.apiserver.bootstrap.legacy_token_tracker import LegacyTokenTracker
from kubeloop.apiserver.bootstrap.writer import BootstrapWriter
from kubeloop.apiserver.nonresource import post_start_hooks as hooks
from kubeloop.apiserver.registry.internal_status import write_change, write_status
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import Clock
from kubeloop.store import StoreError, StoreEvent

log = logging.getLogger(__name__)

NAMESPACES_SECONDS: Final = 60.0
SERVICE_SECONDS: Final = 10.0
FLOW_CONTROL_SECONDS: Final = 60.0


class SystemObjects:
    """System objects of one server."""

    def __init__(
        self, registry: StorageRegistry, writer: BootstrapWriter, options: BootstrapOptions, clock: Clock
    ) -> None:
        self._registry = registry
        self._writer = writer
        self._given = options
        self._clock = clock

    async def ensure_all(self, started: hooks.PostStartHooks) -> None:
        """Write all objects; returns when they are durable."""
        options = self._options()
        await self._writer.ensure(essential_objects(options))
        started.finish(
            hooks.NAMESPACES,
            hooks.PRIORITY_CLASSES,
            hooks.SERVICE_CIDR,
            hooks.KUBERNETES_SERVICE,
            hooks.TOKEN_TRACKING,
        )
        config, now = options.resource_config, object_meta.time_of(options.now)
        await self._writer.ensure(
            [
                *access_objects(config.features, options.kubelet_client_user),
                *flow_control_objects(now),
                *api_service_objects(now, config.resources),
            ]
        )
        started.finish(hooks.ROLES, hooks.FLOW_CONTROL_CONFIG, hooks.AUTOREGISTRATION, hooks.AUTOREGISTRATION_COMPLETE)

    def start_reconcilers(self, parts: AsyncExitStack) -> None:
        """Reconcile the objects periodically until the parts are closed."""
        for seconds, reconcile in (
            (NAMESPACES_SECONDS, self.reconcile_namespaces),
            (SERVICE_SECONDS, self.reconcile_service),
            (FLOW_CONTROL_SECONDS, self.reconcile_flow_control),
        ):
            parts.callback(PeriodicJob(seconds, reconcile).cancel)
        parts.callback(LegacyTokenTracker(self._registry, self._writer, self._clock).close)

    def reconcile_namespaces(self) -> None:
        """Create the system namespaces that are missing."""
        self._write(namespace_objects())

    def reconcile_service(self) -> None:
        """Create the default ServiceCIDR, the kubernetes Service and its endpoints if they are missing.

        As upstream, the Service itself is corrected at the start only, its endpoints always.
        """
        options = self._options()
        self._reconcile_service_cidr(options)
        if self._registry.get_object("services", "default", "kubernetes") is None and self._is_address_free(options):
            self._write(service_objects(options))
        if options.advertise_address:
            self._write(endpoint_objects([(options.advertise_address, options.secure_port)]))

    def reconcile_flow_control(self) -> None:
        """Restore flow schemas and priority levels, and remove those of older versions."""
        wanted = list(flow_control_objects(object_meta.time_of(self._clock.now())))
        self._write(wanted)
        names = {(resource.plural, obj.metadata.name) for resource, obj in wanted}
        for plural in ("flowschemas", "prioritylevelconfigurations"):
            self._remove_unwanted(plural, {name for kind, name in names if kind == plural})

    def _reconcile_service_cidr(self, options: BootstrapOptions) -> None:
        ((resource, wanted),) = service_cidr_objects(options)
        storage = self._registry.storage_of(resource)
        record = storage.peek("", wanted.metadata.name)
        if record is None:
            self._write([(resource, wanted)])
            return
        present = decode(record.value, ServiceCIDR)
        if present.metadata.deletion_timestamp is not None:
            return
        cidrs = wanted.spec.cidrs
        if len(cidrs) == 2 and present.spec.cidrs == cidrs[:1]:  # from single stack to dual stack
            write_change(storage, record, lambda one: struct_replace(one, spec=wanted.spec), self._clock)
        elif present.spec.cidrs == cidrs and not any(
            one.type == "Ready" and one.status != "Unknown" for one in present.status.conditions
        ):
            write_status(storage, record, lambda one: struct_replace(one, status=wanted.status), self._clock)

    def _is_address_free(self, options: BootstrapOptions) -> bool:
        """Return False, and say so, if another Service has taken the address of the kubernetes Service."""
        wanted: IPAddress = next(obj for _, obj in service_objects(options) if isinstance(obj, IPAddress))
        name = wanted.metadata.name
        held: IPAddress | None = self._registry.get_object("ipaddresses", "", name, "networking.k8s.io")
        if held is None or held.spec.parent_ref == wanted.spec.parent_ref:
            return True
        log.error("the Service kubernetes cannot be created: its address %s is allocated", name)
        return False

    def _remove_unwanted(self, plural: str, wanted: set[str]) -> None:
        storage = self._registry.storage_named(FLOW_CONTROL, "v1", plural)
        for record in storage.store.range(storage.prefix("")).records:
            if record.key.rpartition("/")[2] not in wanted and is_autoupdated(record.value):
                with suppress(StoreError):
                    storage.store.write(record.key, None, record.mod_revision).add_done_callback(_consume_result)

    def _write(self, objects: Iterable[tuple[Resource, Any]]) -> None:
        """Write without waiting; the next run makes up for a failed write."""
        for resource, obj in objects:
            with suppress(StoreError):
                if (write := self._writer.write(resource, obj)) is not None:
                    write.add_done_callback(_consume_result)

    def _options(self) -> BootstrapOptions:
        return replace(self._given, now=self._clock.now())


def _consume_result(write: asyncio.Future[StoreEvent]) -> None:
    if not write.cancelled():
        write.exception()
