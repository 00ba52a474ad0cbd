# SPDX-License-Identifier: Apache-2.0
"""Lease endpoint reconciler: points the kubernetes Service to all live servers of a shared store.

As upstream, each server renews a key under `masterleases` that expires soon after its last write. Every server that
sees one come or go corrects the endpoints; the others then find nothing left to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.apiserver.bootstrap import endpoint_objects
from kubeloop.apiserver.bootstrap.writer import BootstrapWriter
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.store import StoreConflict, StoreError, StoreEvent

RENEW_SECONDS: Final = 5.0
_LIFE_SECONDS: Final = 8.0  # until a server that stops renewing counts as dead; the store may double it
PREFIX: Final = "/registry/masterleases/"
_LEAVE_SECONDS: Final = 2.0  # the key expires by itself
_SERVICE: Final = "kubernetes"


class _Server(msgspec.Struct, frozen=True):
    address: str
    port: int
    generation: int = 0  # number of renewals: an equal value would not be written


class LeaseEndpointReconciler:
    """One server's endpoint reconciler."""

    def __init__(self, registry: StorageRegistry, own: BootstrapWriter, address: str, port: int) -> None:
        self._registry = registry
        self._store = registry.store
        self._bootstrap_writer = own
        self._server = _Server(address, port)
        self._key = f"{PREFIX}{address}:{port}"
        self._store.set_ttl(PREFIX, _LIFE_SECONDS)
        self._subscription = self._store.subscribe(PREFIX, self._store.revision, self._on_events)

    async def join(self) -> None:
        """Register this server; returns when the registration is durable."""
        await self._write_lease()
        self._reconcile_endpoints()

    def renew(self) -> None:
        """Renew the registration and reconcile; called every few seconds."""
        self._write_lease().add_done_callback(_consume_result)
        self._reconcile_endpoints()

    async def leave(self) -> None:
        """Unregister at once instead of by expiry."""
        self._subscription.cancel()
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._store.write(self._key, None)
        self._reconcile_endpoints()

    def _write_lease(self) -> asyncio.Future[StoreEvent]:
        self._server = msgspec.structs.replace(self._server, generation=self._server.generation + 1)
        return self._store.write(self._key, msgspec.json.encode(self._server))

    def _on_events(self, events: Sequence[StoreEvent]) -> None:
        if any(event.is_deleted or event.previous is None for event in events):
            self._reconcile_endpoints()

    def _reconcile_endpoints(self) -> None:
        """Write the endpoints that differ; a conflict with a server that wrote the same is ignored."""
        alive = [msgspec.json.decode(one.value, type=_Server) for one in self._store.range(PREFIX).records]
        if not alive:
            return  # as upstream: this must be an error, and a Service without endpoints would be worse
        wanted = list(endpoint_objects((one.address, one.port) for one in alive))
        for resource, obj in wanted:
            with suppress(StoreError):
                if (write := self._bootstrap_writer.write(resource, obj)) is not None:
                    write.add_done_callback(_consume_result)
        self._remove_other_slices({obj.metadata.name for _, obj in wanted})

    def _remove_other_slices(self, wanted: set[str]) -> None:
        slices = self._registry.storage_named("discovery.k8s.io", "v1", "endpointslices")
        for record in self._store.range(slices.key("default", f"{_SERVICE}-")).records:
            found = codec.decode(record.value, EndpointSlice).metadata
            ours = found.labels.get("kubernetes.io/service-name") == _SERVICE
            if wanted and ours and found.name not in wanted:
                with suppress(StoreConflict):
                    self._store.write(record.key, None, record.mod_revision).add_done_callback(_consume_result)


def _consume_result(write: asyncio.Future[StoreEvent]) -> None:
    """Retrieve the result of a write; a failed one is repeated at the next renewal."""
    if not write.cancelled():
        write.exception()
