# SPDX-License-Identifier: Apache-2.0
"""Proxier of one IP family: collects changes and writes them to the kernel's table, one transaction for each sync.

changes ──▶ checkout ──▶ parts of changed ports ──▶ ProxyTable ──▶ script with the differences ──▶ nftables
              first sync, failure, once an hour ──▶ script with the whole table, which replaces the kernel's
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.clock import Clock
from kubeloop.nftables import Nftables, NftablesError, NftablesNotFound
from kubeloop.proxy.endpoint_selection import NodeTopology, select_endpoints
from kubeloop.proxy.health.proxy_health import ProxyHealth
from kubeloop.proxy.ip_family import networks_of
from kubeloop.proxy.kernel.stale_flows import Frontends, UdpFrontends
from kubeloop.proxy.metrics import ProxyMetrics
from kubeloop.proxy.rules.base_table import base_rules
from kubeloop.proxy.rules.names import NODEPORT_IPS
from kubeloop.proxy.rules.port_rules import ElementKey, build_port_rules
from kubeloop.proxy.rules.scripts import (
    affinity_clients,
    changes_script,
    list_sets_script,
    stale_chains_script,
    table_script,
)
from kubeloop.proxy.rules.settings import TableSettings
from kubeloop.proxy.rules.table import ProxyTable
from kubeloop.proxy.service_port import NamespacedName
from kubeloop.proxy.sync_runner import BoundedFrequencyRunner, SyncIntervals
from kubeloop.proxy.tracker.endpoint_slices import EndpointsChange, EndpointsChangeTracker
from kubeloop.proxy.tracker.services import ServiceChangeTracker

FULL_SYNC_SECONDS: Final = 3600.0
_STALE_SECONDS: Final = 1.0  # after which a chain without references can be deleted, also by older kernels

log = logging.getLogger(__name__)


class FlowCleaner(Protocol):
    """Deletes tracked UDP flows."""

    async def clean(self, frontends: Frontends) -> int:
        """Delete the flows to endpoints that do not serve, and return their number. Raises OSError."""


class ServiceHealth(Protocol):
    """Health check node ports."""

    async def set_service(self, service: NamespacedName, port: int, local_endpoints: int) -> None:
        """Set port and number of local endpoints of a Service."""

    async def retry_failed(self) -> None:
        """Open the ports again that could not be opened."""


@dataclass(frozen=True, slots=True)
class ProxierDependencies:
    """Collaborators of a proxier."""

    nftables: Nftables
    clock: Clock
    metrics: ProxyMetrics
    health: ProxyHealth
    service_health: ServiceHealth
    flows: FlowCleaner
    node_addresses: Callable[[], Awaitable[Iterable[str]]]  # of the interfaces


class Proxier:
    """Service proxy of one IP family."""

    def __init__(
        self,
        settings: TableSettings,
        node_name: str,
        dependencies: ProxierDependencies,
        intervals: SyncIntervals,
        *,
        allow_external_ips: bool = True,
    ) -> None:
        self.settings = settings
        self._parts = dependencies
        self._metrics = dependencies.metrics.family(settings.family.name)
        self._topology = NodeTopology(node_name)
        self._services = ServiceChangeTracker(settings.family, allow_external_ips=allow_external_ips)
        self._endpoints = EndpointsChangeTracker(settings.family, node_name, dependencies.clock.now())
        self._service_cidrs: tuple[str, ...] = ()
        self._frontends = UdpFrontends()
        self._runner = BoundedFrequencyRunner(self.sync, intervals._replace(maximum=FULL_SYNC_SECONDS))
        self._stale_chains: dict[str, float] = {}  # emptied chains, with the time
        self._is_synced = {"services": False, "slices": False}
        self._needs_table = True  # the kernel's table has to be replaced
        self._needs_all_ports = False  # every port has to be computed again
        self._last_table = 0.0
        self.table = ProxyTable(settings)

    # Changes.

    def on_service(self, service: Service, *, deleted: bool = False) -> None:
        """Take a Service that was added, changed or deleted."""
        if self._services.update(service, deleted=deleted):
            self._request()

    def on_endpoint_slice(self, one: EndpointSlice, *, deleted: bool = False) -> None:
        """Take an EndpointSlice that was added, changed or deleted."""
        if self._endpoints.accepts(one) and self._endpoints.update(one, deleted=deleted):
            self._request()

    def mark_synced(self, collection: str) -> None:
        """Note that all `services` or `slices` that exist have been received; the first sync needs both."""
        self._is_synced[collection] = True
        self._request()

    def set_zone(self, zone: str) -> None:
        """Set the zone of the node."""
        if zone != self._topology.zone:
            self._topology = self._topology._replace(zone=zone)
            self._needs_all_ports = True
            self._request()

    def set_service_cidrs(self, cidrs: Iterable[str]) -> None:
        """Set the networks of cluster IPs; packets to unused addresses in them are dropped."""
        found = tuple(sorted(map(str, networks_of(cidrs, self.settings.family))))
        if found != self._service_cidrs:
            self._service_cidrs = found
            self._request()

    @property
    def pending(self) -> tuple[int, int]:
        """Numbers of changed Services, and of Services with changed endpoints."""
        return self._services.pending, self._endpoints.pending

    # Syncs.

    async def run(self) -> None:
        """Sync when something has changed, until cancelled."""
        self._parts.health.mark_updated(self.settings.family.name)
        self._metrics.last_queued.set(self._parts.clock.now().timestamp())
        await self._runner.run()

    async def sync(self) -> bool:
        """Write all changes to the kernel; returns False if that failed."""
        if not all(self._is_synced.values()):
            return True
        clock = self._parts.clock
        began = clock.monotonic()
        is_full = self._needs_table or began - self._last_table > FULL_SYNC_SECONDS
        is_full |= not await self._delete_stale_chains(began)
        services, changes = self._services.checkout(), self._endpoints.checkout()
        self._needs_table = True  # until the kernel has what is checked out
        changed = {*services, *changes}
        script = await self._full_script() if is_full else self._partial_script(changed)
        is_done = await self._run_script(script)
        self._observe(clock.monotonic() - began, is_full)
        if not is_done:
            return False
        self._needs_table = False
        if is_full:
            self._last_table = began
            self._stale_chains.clear()
        await self._finish(changes, changed)
        return True

    async def _run_script(self, script: str) -> bool:
        if not script:
            return True
        try:
            await self._parts.nftables.run(script)
        except NftablesError as error:
            log.error("%s: the sync of nftables failed: %s", self.settings.family, error)
            log.debug("failed script:\n%s", error.script)
            self._metrics.sync_failures.increment()
            return False
        return True

    async def _full_script(self) -> str:
        """Build the table anew and return the script that replaces the kernel's; clients keep their affinity."""
        self.table = ProxyTable(self.settings)
        await self._set_base()
        self._set_ports(self._services)
        self._needs_all_ports = False
        self.table.take_changes()
        return table_script(self.table, await self._affinity_clients())

    def _partial_script(self, changed: set[NamespacedName]) -> str:
        """Apply changes to the table and return the script that applies them to the kernel's."""
        self.table.set_chains(base_rules(self.settings, self._service_cidrs))
        if self._needs_all_ports:
            self._needs_all_ports = False
            self._set_ports({*changed, *self._services})
        else:
            self._set_ports(changed)
        changes = self.table.take_changes()
        now = self._parts.clock.monotonic()
        for name in changes.written_chains:
            self._stale_chains.pop(name, None)
        self._stale_chains.update(dict.fromkeys(changes.deleted_chains, now))
        return changes_script(self.settings, changes) if changes else ""

    async def _set_base(self) -> None:
        elements: list[ElementKey] = []
        addresses = self.settings.nodeport_addresses
        if not addresses.match_all:
            try:
                own = await self._parts.node_addresses()
            except OSError as error:
                log.error("the addresses of the node cannot be read, node ports are not served: %s", error)
                own = ()
            elements = [ElementKey(NODEPORT_IPS, address) for address in addresses.node_ips(own)]
        self.table.set_chains(base_rules(self.settings, self._service_cidrs))
        self.table.set_node_elements(elements)

    def _set_ports(self, services: Iterable[NamespacedName]) -> None:
        """Compute the parts of all ports of some Services."""
        for service in services:
            ports, endpoints = self._services.ports_of(service), self._endpoints.endpoints_of(service)
            for name in self.table.ports_of(service) - ports.keys():
                self.table.set_port(name, None)
                self._frontends.set_port(name, None, ())
            for name, port in ports.items():
                rows = endpoints.get(name, ())
                selection = select_endpoints(rows, port, self._topology)
                self.table.set_port(name, build_port_rules(name, port, selection, self.settings))
                self._frontends.set_port(name, port, rows)

    async def _affinity_clients(self) -> Mapping[str, str]:
        """Return the clients of the kernel's affinity sets, so that a replaced table still knows them."""
        if not self.table.affinity_sets:
            return {}
        try:
            listing = await self._parts.nftables.run(list_sets_script(self.settings.family))
        except NftablesNotFound:
            return {}
        except NftablesError as error:
            log.warning("clients lose their session affinity, since the sets cannot be listed: %s", error)
            return {}
        return affinity_clients(listing, self.table.affinity_sets)

    async def _delete_stale_chains(self, now: float) -> bool:
        """Delete chains that have been empty for some time; returns False if the table has to be replaced."""
        chains = [name for name, since in self._stale_chains.items() if now - since >= _STALE_SECONDS]
        for name in chains:
            del self._stale_chains[name]
        if not chains or self._needs_table:  # a new table does not have them
            return True
        try:
            await self._parts.nftables.run(stale_chains_script(self.settings.family, chains))
        except NftablesError as error:
            log.error("stale chains cannot be deleted: %s", error)
            self._metrics.cleanup_failures.increment()
            return False
        return True

    # After a sync.

    async def _finish(self, changes: Mapping[NamespacedName, EndpointsChange], changed: set[NamespacedName]) -> None:
        clock, metrics = self._parts.clock, self._metrics
        now = clock.now()
        for time in (time for change in changes.values() for time in change.trigger_times):
            metrics.network_programming_seconds.observe(_seconds_between(time, now))
        metrics.lacks_internal.set(self.table.lacks_internal)
        metrics.lacks_external.set(self.table.lacks_external)
        metrics.last_sync.set(now.timestamp())
        self._parts.health.mark_updated(self.settings.family.name)
        if any(self.pending):  # changed during the sync
            self._parts.health.mark_queued(self.settings.family.name)
        for service in changed:
            await self._update_health_check(service)
        await self._parts.service_health.retry_failed()
        if any(change.has_udp for change in changes.values()):
            await self._clean_flows()

    async def _update_health_check(self, service: NamespacedName) -> None:
        ports = self._services.ports_of(service).values()
        number = next((port.health_check_node_port for port in ports if port.health_check_node_port), 0)
        rows = (one for endpoints in self._endpoints.endpoints_of(service).values() for one in endpoints)
        addresses = {one.ip for one in rows if one.is_local and one.is_ready}
        await self._parts.service_health.set_service(service, number, len(addresses))

    async def _clean_flows(self) -> None:
        """Delete tracked UDP flows to endpoints that no longer serve."""
        began = self._parts.clock.monotonic()
        try:
            self._metrics.conntrack_deleted.increment(await self._parts.flows.clean(self._frontends.snapshot()))
        except OSError as error:
            log.error("%s: stale flows cannot be deleted: %s", self.settings.family, error)
        self._metrics.conntrack_seconds.observe(self._parts.clock.monotonic() - began)

    def _observe(self, seconds: float, is_full: bool) -> None:
        self._metrics.sync_seconds.observe(seconds)
        (self._metrics.full_sync_seconds if is_full else self._metrics.partial_sync_seconds).observe(seconds)

    def _request(self) -> None:
        if all(self._is_synced.values()):
            self._parts.health.mark_queued(self.settings.family.name)
            self._metrics.last_queued.set(self._parts.clock.now().timestamp())
            self._runner.request()


def _seconds_between(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds())
