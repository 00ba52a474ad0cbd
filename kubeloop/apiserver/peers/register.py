"""Registers a listening server: by its identity Lease and, in a shared store, as an endpoint."""

from __future__ import annotations

from contextlib import AsyncExitStack

from kubeloop.apiserver.background.periodic import PeriodicJob
from kubeloop.apiserver.bootstrap.writer import BootstrapWriter
from kubeloop.apiserver.peers.identity_lease import COLLECT_SECONDS, RENEW_SECONDS, IdentityLease
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import Clock


async def register_server(
    registry: StorageRegistry, clock: Clock, server: tuple[str, int], parts: AsyncExitStack
) -> None:
    """Register the server, reachable at `server` (address, port), until the parts are closed."""
    own = BootstrapWriter(registry, clock)
    lease = IdentityLease(registry, own, clock, f"{server[0]}:{server[1]}")
    lease.renew()
    parts.callback(PeriodicJob(RENEW_SECONDS, lease.renew).cancel)
    parts.callback(PeriodicJob(COLLECT_SECONDS, lease.collect).cancel)
    if registry.store.shared:
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
    allocator = registry.named("", "v1", "services").allocator
    assert allocator is not None, "services have one"
    repair = allocator.repair(clock)
    repair.look()
    parts.callback(PeriodicJob(REPAIR_SECONDS, repair.look).cancel)
