# SPDX-License-Identifier: Apache-2.0
"""Syncs Services with their load balancers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kubeloop.api.generated.core_v1 import Service
from kubeloop.cloud.provider import RetryAfter
from kubeloop.cloud.service_lb.hosts import HostSet
from kubeloop.cloud.service_lb.load_balancer_manager import LoadBalancerManager
from kubeloop.cloud.service_lb.policy import FINALIZER, Hosts, needs_cleanup, needs_update, wants_load_balancer
from kubeloop.runtime.causes.cause import Event, Origin
from kubeloop.runtime.controller import Result
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.workqueue import NORMAL, WorkQueue


@dataclass(frozen=True, slots=True)
class _CachedService:
    """Last state requested from the cloud for a Service."""

    service: Service
    hosts: Hosts | None = None  # None until done


class Reconciler:
    """Reconciles Services by key."""

    def __init__(self, services: Informer, hosts: HostSet, balancing: LoadBalancerManager) -> None:
        self._services = services
        self._hosts = hosts
        self._balancing = balancing
        self._known: dict[ObjectKey, _CachedService] = {}  # Services that have, or may have, a load balancer

    def may_have_load_balancer(self, key: ObjectKey) -> bool:
        """Return True if the Service has or may have a load balancer."""
        return key in self._known

    def keys_with_stale_hosts(self) -> Iterator[ObjectKey]:
        """Return the Services whose load balancers use outdated nodes."""
        if not self._known:
            return iter(())  # for example while the nodes of a large cluster are added
        wanted = self._hosts.hosts()
        return (key for key, known in self._known.items() if known.hosts is not None and known.hosts != wanted)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Sync the load balancer of one Service."""
        service: Service | None = self._services.get(*key)
        known = self._known.get(key)
        if known is not None and (service is None or service.metadata.uid != known.service.metadata.uid):
            await self._forget(key, known.service)
        if service is None:
            return None
        try:
            await self._sync(key, service)
        except RetryAfter as error:
            self._balancing.record_sync_failure(service, error)
            return Result(requeue_after=error.seconds)
        except Exception as error:
            self._balancing.record_sync_failure(service, error)
            raise
        return Result(requeue_after=0.0) if self._is_behind(key) else None

    def _is_behind(self, key: ObjectKey) -> bool:
        """Return True if the nodes have changed during the sync."""
        known = self._known.get(key)
        return known is not None and known.hosts != self._hosts.hosts()

    async def _forget(self, key: ObjectKey, gone: Service) -> None:
        if wants_load_balancer(gone):
            await self._balancing.delete(gone)
        del self._known[key]

    async def _sync(self, key: ObjectKey, service: Service) -> None:
        known = self._known.get(key)
        if needs_cleanup(service) or not wants_load_balancer(service):
            await self._balancing.clean_up(service)
            self._known.pop(key, None)
        elif service.metadata.deletion_timestamp is not None and FINALIZER not in service.metadata.finalizers:
            return  # cleaned up, and waiting for other finalizers
        elif known is None or known.hosts is None or needs_update(known.service, service):
            await self._ensure(key, service)
        elif known.hosts != self._hosts.hosts():
            await self._update_hosts(key, service)

    async def _ensure(self, key: ObjectKey, service: Service) -> None:
        self._known[key] = _CachedService(service)
        nodes, hosts = self._hosts.nodes(), self._hosts.hosts()
        await self._balancing.ensure(service, nodes)
        self._known[key] = _CachedService(service, hosts)

    async def _update_hosts(self, key: ObjectKey, service: Service) -> None:
        nodes, hosts = self._hosts.nodes(), self._hosts.hosts()
        if await self._balancing.update_hosts(service, nodes) == "done":
            self._known[key] = _CachedService(service, hosts)
        else:
            await self._ensure(key, service)


class ServiceEventHandler:
    """Maps events of Services and hosts to keys."""

    def __init__(self, queue: WorkQueue[ObjectKey], reconciler: Reconciler) -> None:
        self._queue = queue
        self._reconciler = reconciler

    def on_add(self, service: Any) -> None:
        """Enqueue a new Service that needs a load balancer or its cleanup."""
        if wants_load_balancer(service) or needs_cleanup(service):
            self._put(service, "ADDED")

    def on_update(self, old: Any, new: Any) -> None:
        """Enqueue a changed Service; a resync only repeats cleanups, since failures have their own backoff."""
        if needs_update(old, new) or needs_cleanup(new):
            self._put(new, "resync" if old is new else "MODIFIED")

    def on_delete(self, service: Any) -> None:
        """Enqueue a deleted Service that may have a load balancer."""
        if self._reconciler.may_have_load_balancer(key_of(service)):
            self._put(service, "DELETED")

    def handle_hosts_changed(self) -> None:
        """Enqueue the Services with outdated nodes."""
        for key in tuple(self._reconciler.keys_with_stale_hosts()):
            self._queue.add(key)

    def _put(self, service: Any, event: Event) -> None:
        meta = service.metadata
        origin = Origin("Service", meta.namespace, meta.name, meta.resource_version, event)
        self._queue.add(key_of(service), (origin,), NORMAL)
