# SPDX-License-Identifier: Apache-2.0
"""Removes the entries of absent API servers from StorageVersions.

Each API server has a lease in kube-system, and an entry in the StorageVersion of every resource that it serves.

Watches: storage versions; leases of API servers, for their deletion.
Owns: nothing.
Writes: deletes storage versions without entries; removes entries from the status of others.
Wakes itself: never.
Differs from upstream: one queue of storage versions serves both; a deleted lease enqueues those that name it. A failed
  read of a lease does not count as its absence.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import msgspec

from kubeloop.api import codec
from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.apiserverinternal_v1alpha1 import (
    ServerStorageVersion,
    StorageVersion,
    StorageVersionCondition,
)
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Time
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "storageversion-garbage-collector-controller"
QUEUE = "storage_version_garbage_collector_storageversions"  # upstream's queue name, as dashboards know it
NAMESPACE: Final = "kube-system"
IDENTITY: Final = "apiserver.kubernetes.io/identity"
API_SERVER: Final = "kube-apiserver"
BY_SERVER: Final = "API server"
EQUAL: Final = "AllEncodingVersionsEqual"


def wire(context: ControllerContext) -> Controller[str]:
    """Build the controller and register its event handlers."""
    versions = context.informers.for_resource(resource_of_class(StorageVersion))
    versions.add_indexer(BY_SERVER, api_server_ids)
    leases = context.informers.for_resource(
        resource_of_class(Lease), namespace=NAMESPACE, labels=f"{IDENTITY}={API_SERVER}"
    )
    reconciler = Reconciler(context.client, versions, context.clock)
    queue: WorkQueue[str] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=1, queue=queue, telemetry=context.telemetry
    )

    def naming(lease: Lease) -> list[str]:
        return [one.metadata.name for one in versions.by_index(BY_SERVER, lease.metadata.name)]

    def is_stale(_: Any, new: Any) -> bool:
        return new is not None and any(leases.get(NAMESPACE, one) is None for one in api_server_ids(new))

    controller.watches(leases, naming, _is_gone)
    controller.watches(versions, lambda one: (one.metadata.name,), is_stale)
    return controller


class Reconciler:
    """Reconciles storage versions by name."""

    def __init__(self, client: Client, versions: Informer, clock: Clock) -> None:
        self._client = client
        self._versions = versions
        self._clock = clock

    async def reconcile(self, key: str) -> None:
        """Remove the entries of absent servers, and delete the object if none is left."""
        found: StorageVersion | None = self._versions.get("", key)
        if found is None:
            return
        entries = found.status.storage_versions
        living = [one for one in entries if await self._lives(one.api_server_id)]
        if len(living) == len(entries):
            return
        meta = found.metadata
        if not living:
            this_one = Preconditions(uid=meta.uid, resource_version=meta.resource_version)
            with suppress(NotFound):
                await self._client.delete(StorageVersion, key, preconditions=this_one)
            return
        patch = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": status_of(found, living, self._clock.now()),
        }
        with suppress(NotFound, Conflict):  # a change enqueues the object again
            await self._client.patch(StorageVersion, key, patch, subresource="status")

    async def _lives(self, server: str) -> bool:
        """Return True if the API server's lease exists on the server."""
        if not server:
            return False
        try:
            lease = await self._client.get(Lease, server, NAMESPACE)
        except NotFound:
            return False
        return lease.metadata.labels.get(IDENTITY) == API_SERVER


def api_server_ids(version: StorageVersion) -> list[str]:
    """Return the IDs of the servers in a StorageVersion."""
    return list(dict.fromkeys(one.api_server_id for one in version.status.storage_versions))


def status_of(version: StorageVersion, entries: Sequence[ServerStorageVersion], now: datetime) -> dict[str, Any]:
    """Build the status with these entries, the common encoding version, and its condition."""
    before = version.status
    stored = {one.encoding_version for one in entries}
    common = stored.pop() if len(stored) == 1 else None
    condition = StorageVersionCondition(
        type=EQUAL,
        status="False" if common is None else "True",
        observed_generation=version.metadata.generation,
        reason="CommonEncodingVersionUnset" if common is None else "CommonEncodingVersionSet",
        message="Common encoding version unset" if common is None else "Common encoding version set",
        last_transition_time=Time(format_time(now)),
    )
    moved = common is not None and before.common_encoding_version not in (None, common)
    return {
        "storageVersions": codec.to_plain(entries),
        "commonEncodingVersion": common,
        "conditions": codec.to_plain(_with(before.conditions, condition, moved)),
    }


def _with(
    conditions: Sequence[StorageVersionCondition], new: StorageVersionCondition, moved: bool
) -> list[StorageVersionCondition]:
    """Replace a condition; the transition time changes only with the status."""
    old = next((one for one in conditions if one.type == new.type), None)
    if old is None:
        return [*conditions, new]
    if old.status == new.status and not moved:
        new = msgspec.structs.replace(new, last_transition_time=old.last_transition_time)
    return [new if one is old else one for one in conditions]


def _is_gone(_: Any, new: Any) -> bool:
    return new is None
