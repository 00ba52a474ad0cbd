# SPDX-License-Identifier: Apache-2.0
"""Protects ranges of Service IPs by a finalizer until their deletion would orphan no address.

Watches: service CIDRs, IP addresses.
Owns: nothing.
Writes: a finalizer and the `Ready` condition of service CIDRs.
Wakes itself: ten seconds after a range's deletion was requested, when no server allocates its addresses any more.
Differs from upstream: the deletion of another range enqueues those that it overlaps, and a relabelled address counts at
once. Another range counts as a replacement only while its finalizer protects it, so that of two overlapping ranges
that are deleted together one stays for the addresses of both. Before a range is released, the addresses are listed
from the server, since a watch may be broken for longer than the ten seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, Final

from kubeloop.api.addresses import parse_cidr, parse_ip
from kubeloop.api.errors import NotFound
from kubeloop.api.generated.meta_v1 import Condition
from kubeloop.api.generated.networking_v1 import IPAddress, ServiceCIDR
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.scalars.times import format_time, parse_time
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "service-cidr-controller"
QUEUE = "ipaddresses"  # upstream's queue name, as dashboards know it
FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"
MANAGED_BY: Final = "ipaddress.kubernetes.io/managed-by"
ALLOCATOR: Final = "ipallocator.k8s.io"  # addresses of other managers are ignored
GRACE: Final = timedelta(seconds=10)  # until every server knows that a range is being deleted
READY: Final = "Ready"
BLOCKED: Final = (
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
)  # fmt: skip

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    ranges = context.informers.for_resource(resource_of_class(ServiceCIDR))
    addresses = context.informers.for_resource(resource_of_class(IPAddress))
    recorder = context.recorder.with_component(NAME)
    reconciler = Reconciler(context.client, context.clock, ranges, addresses, recorder)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(NAME, reconciler.reconcile, context.clock, queue=queue, telemetry=context.telemetry)
    overlaps = OverlappingRanges(ranges)
    controller.watches(ranges, overlaps.with_range, resync=context.resync_period())
    controller.watches(addresses, overlaps.with_address)
    return controller


@dataclass(frozen=True, slots=True)
class OverlappingRanges:
    """Maps changes of ranges and addresses to the ranges that they affect."""

    ranges: Informer

    def with_range(self, changed: ServiceCIDR) -> set[ObjectKey]:
        """Return the keys of the range and of all ranges that overlap with it."""
        networks = networks_of(changed)
        found = {
            key_of(one) for one in self.ranges.list() if any(_overlap(a, b) for a in networks_of(one) for b in networks)
        }
        return found | {key_of(changed)}

    def with_address(self, changed: IPAddress) -> list[ObjectKey]:
        """Return the keys of the ranges that contain the address."""
        address = allocated_address(changed)
        return [] if address is None else [key_of(one) for one in ranges_containing(address, self.ranges.list())]


class Reconciler:
    """Reconciles service CIDRs by key."""

    def __init__(
        self, client: Client, clock: Clock, ranges: Informer, addresses: Informer, recorder: EventRecorder
    ) -> None:
        self._client = client
        self._clock = clock
        self._ranges = ranges
        self._addresses = addresses
        self._recorder = recorder
        self._released: set[str] = set()  # UIDs of cached ranges whose finalizer may already be removed

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Protect one range and mark it as ready, or release it if it is being deleted."""
        found: ServiceCIDR | None = self._ranges.get(*key)
        if found is None:
            self._forget_released()
            return None
        if found.metadata.deletion_timestamp is not None:
            return await self._let_go(found)
        await self._keep(found)
        ready = Condition(type=READY, status="True", message="Kubernetes Service CIDR is ready")
        try:
            await self._tell(found, ready)
        except Exception:
            message = "The ServiceCIDR Status can not be set to Ready=True"
            self._recorder.event(found, "Warning", "KubernetesServiceCIDRError", message)
            raise
        return None

    async def _let_go(self, found: ServiceCIDR) -> Result | None:
        if not can_delete_cidr(found, self._protected(), self._addresses.list()):
            await self._tell(found, Condition(type=READY, status="False", reason="Terminating", message=BLOCKED))
            return None
        left = remaining_grace_seconds(found, self._clock.now())
        if left > 0:
            return Result(requeue_after=left)
        if FINALIZER in found.metadata.finalizers:
            return await self._release(found)
        return None

    async def _release(self, found: ServiceCIDR) -> Result | None:
        """Remove the finalizer, unless the server has an address that the cache does not show yet."""
        allocated = await self._client.list(IPAddress, labels={MANAGED_BY: ALLOCATOR})
        if not can_delete_cidr(found, self._protected(), allocated.items):
            return Result(requeue_after=GRACE.total_seconds())
        self._released.add(found.metadata.uid)  # even if the patch fails: the server may have applied it
        await self._patch(found, {"$deleteFromPrimitiveList/finalizers": [FINALIZER]})
        return None

    def _protected(self) -> list[ServiceCIDR]:
        """Return the ranges that surely exist even if the cache is old, since only this controller releases them."""
        return [
            one
            for one in self._ranges.list()
            if FINALIZER in one.metadata.finalizers and one.metadata.uid not in self._released
        ]

    def _forget_released(self) -> None:
        self._released &= {one.metadata.uid for one in self._ranges.list()}

    async def _keep(self, found: ServiceCIDR) -> None:
        if FINALIZER not in found.metadata.finalizers:
            await self._patch(found, {"finalizers": [FINALIZER]})

    async def _patch(self, found: ServiceCIDR, metadata: dict[str, Any]) -> None:
        patch = {"metadata": {"uid": found.metadata.uid, **metadata}}
        try:
            await self._client.patch(ServiceCIDR, found.metadata.name, patch, type=STRATEGIC_PATCH)
        except NotFound:
            return

    async def _tell(self, found: ServiceCIDR, wanted: Condition) -> None:
        """Apply the controller's own condition; API servers write others."""
        told = find_condition(found.status.conditions, READY)
        if told is not None and (told.status, told.reason, told.message) == (
            wanted.status,
            wanted.reason,
            wanted.message,
        ):
            return
        condition = {
            "type": READY,
            "status": wanted.status,
            "reason": wanted.reason,
            "message": wanted.message,
            "lastTransitionTime": format_time(self._clock.now()),
        }
        status = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": {"name": found.metadata.name},
            "status": {"conditions": [condition]},
        }
        await self._client.apply(status, manager=NAME, force=True, subresource="status")


def remaining_grace_seconds(found: ServiceCIDR, now: datetime) -> float:
    """Return the seconds for which a range that is being deleted must stay."""
    since = found.metadata.deletion_timestamp
    return 0.0 if since is None else (parse_time(since) + GRACE - now).total_seconds()


def can_delete_cidr(going: ServiceCIDR, ranges: Sequence[ServiceCIDR], addresses: Iterable[IPAddress]) -> bool:
    """Return True if each address of the range is also in another one."""
    others = [one for one in ranges if one.metadata.name != going.metadata.name]
    if all(any(_contains(b, a) for one in others for b in networks_of(one)) for a in networks_of(going)):
        return True
    for one in addresses:
        address = allocated_address(one)
        if address is not None and ranges_containing(address, [going]) and not ranges_containing(address, others):
            return False
    return True


def networks_of(one: ServiceCIDR) -> list[Network]:
    """Parse the networks of a range."""
    parsed = (parse_cidr(cidr) for cidr in one.spec.cidrs)
    return [found[1] for found in parsed if found is not None]


def allocated_address(one: IPAddress) -> Address | None:
    """Return the address of an object if a server allocated it to a Service, else None."""
    return parse_ip(one.metadata.name) if one.metadata.labels.get(MANAGED_BY) == ALLOCATOR else None


def ranges_containing(address: Address, ranges: Iterable[ServiceCIDR]) -> list[ServiceCIDR]:
    """Return the ranges that can allocate the address."""
    return [one for one in ranges if any(can_allocate(network, address) for network in networks_of(one))]


def can_allocate(network: Network, address: Address) -> bool:
    """Return True if the network can allocate the address: not its first one, nor the last one in IPv4."""
    if address.version != network.version or address == network.network_address:
        return False
    return address in network and (address.version == 6 or address != network.broadcast_address)


def _overlap(one: Network, other: Network) -> bool:
    return one.version == other.version and one.overlaps(other)


def _contains(outer: Network, inner: Network) -> bool:
    return outer.version == inner.version and outer.prefixlen <= inner.prefixlen and outer.overlaps(inner)
