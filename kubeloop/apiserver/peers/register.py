# SPDX-License-Identifier: Apache-2.0
"""Registers a listening server: by its identity Lease and, in a shared store, as an endpoint."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import socket
from contextlib import AsyncExitStack, suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.coordination_v1 import Lease, LeaseSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.times import format_micro_time, parse_micro_time
from kubeloop.api.scalars.wire import MicroTime
from kubeloop.apiserver.background.periodic import PeriodicJob
from kubeloop.apiserver.bootstrap.writer import BootstrapWriter
from kubeloop.apiserver.registry.serializer import encode_stored
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import Clock, new_uid
from kubeloop.store import StoreError, StoreEvent

RENEW_SECONDS: Final = 10.0
COLLECT_SECONDS: Final = 3600.0
_DURATION: Final = 3600
_NAMESPACE: Final = "kube-system"
_IDENTITY: Final = "apiserver.kubernetes.io/identity"
_COMPONENT: Final = "kube-apiserver"


class IdentityLease:
    """Identity Lease of this server in kube-system; Leases of servers that are gone are collected by any other."""

    def __init__(self, registry: StorageRegistry, own: BootstrapWriter, clock: Clock, address: str) -> None:
        self._storage = registry.storage_named("coordination.k8s.io", "v1", "leases")
        self._bootstrap_writer = own
        self._clock = clock
        self._host = socket.gethostname()
        self.name = identity_of(self._host, address)
        self._holder = f"{self.name}_{new_uid(clock)}"

    def renew(self) -> None:
        """Create or renew the Lease, without waiting."""
        record = self._storage.peek(_NAMESPACE, self.name)
        with suppress(StoreError):  # the next renewal comes soon
            if record is None:
                write = self._bootstrap_writer.write(self._storage.resource, self._lease())
            else:
                old = codec.decode(record.value, Lease)
                renewed = msgspec.structs.replace(old, spec=self._lease().spec)
                write = self._storage.store.write(record.key, encode_stored(renewed), record.mod_revision)
            if write is not None:
                write.add_done_callback(_consume_result)

    def delete_expired(self) -> None:
        """Delete expired identity Leases."""
        now = self._clock.now()
        for record in self._storage.store.range(self._storage.prefix(_NAMESPACE)).records:
            lease = codec.decode(record.value, Lease)
            if lease.metadata.labels.get(_IDENTITY) == _COMPONENT and is_expired(lease.spec, now):
                with suppress(StoreError):
                    self._storage.store.write(record.key, None, record.mod_revision).add_done_callback(_consume_result)

    def _lease(self) -> Lease:
        labels = {_IDENTITY: _COMPONENT, "kubernetes.io/hostname": self._host}
        return Lease(
            metadata=ObjectMeta(name=self.name, namespace=_NAMESPACE, labels=labels),
            spec=LeaseSpec(
                holder_identity=self._holder,
                lease_duration_seconds=_DURATION,
                renew_time=MicroTime(format_micro_time(self._clock.now())),
            ),
        )


def identity_of(host: str, address: str) -> str:
    """Return a server's identity: stable over restarts, and different for each server.

    Upstream derives it from the host alone. Several servers may run on one host here, so the address counts as well.
    """
    parts = (host.encode(), _COMPONENT.encode(), address.encode())
    digest = hashlib.sha256(b"".join(len(part).to_bytes(2, "big") + part for part in parts)).digest()
    return f"apiserver-{base64.b32encode(digest[:16]).decode().rstrip('=').lower()}"


def is_expired(spec: LeaseSpec, now: datetime) -> bool:
    """Return True if the Lease has expired."""
    if spec.renew_time is None or spec.lease_duration_seconds is None:
        return True
    return parse_micro_time(spec.renew_time) + timedelta(seconds=spec.lease_duration_seconds) < now


def _consume_result(write: asyncio.Future[StoreEvent]) -> None:
    if not write.cancelled():
        write.exception()


async def register_server(
    registry: StorageRegistry, own: BootstrapWriter, clock: Clock, server: tuple[str, int], parts: AsyncExitStack
) -> None:
    """Register the server, reachable at `server` (address, port), until the parts are closed."""
    lease = IdentityLease(registry, own, clock, f"{server[0]}:{server[1]}")
    lease.renew()
    parts.callback(PeriodicJob(RENEW_SECONDS, lease.renew).cancel)
    parts.callback(PeriodicJob(COLLECT_SECONDS, lease.delete_expired).cancel)
    if registry.store.is_shared:
        await _join(registry, own, clock, server, parts)


async def _join(
    registry: StorageRegistry, own: BootstrapWriter, clock: Clock, server: tuple[str, int], parts: AsyncExitStack
) -> None:
    from kubeloop.apiserver.peers import endpoint_reconciler
    from kubeloop.apiserver.registry.allocation.repair import REPAIR_SECONDS

    servers = endpoint_reconciler.LeaseEndpointReconciler(registry, own, *server)
    await servers.join()
    parts.push_async_callback(servers.leave)
    parts.callback(PeriodicJob(endpoint_reconciler.RENEW_SECONDS, servers.renew).cancel)
    allocator = registry.storage_named("", "v1", "services").allocator
    assert allocator is not None, "services have one"
    repair = allocator.repair(clock)
    repair.run_once()
    parts.callback(PeriodicJob(REPAIR_SECONDS, repair.run_once).cancel)
