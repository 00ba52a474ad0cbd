# SPDX-License-Identifier: Apache-2.0
"""Application of the proxy: informers, one proxier for each IP family, and what they share.

NodeManager.settle ──▶ build_proxy: addresses, detection of pod traffic ──▶ ProxyApp.run: informers ──▶ proxiers
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubeloop.api.features.gates import parse_feature_gates
from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.api.generated.networking_v1 import ServiceCIDR
from kubeloop.clock import Clock
from kubeloop.nftables import Nftables
from kubeloop.proxy.config.configuration import KubeProxyConfiguration
from kubeloop.proxy.health.proxy_health import ProxyHealth
from kubeloop.proxy.health.service_health import HealthEvents, ServiceHealthServer
from kubeloop.proxy.ip_family import IP_FAMILIES, IPV4, IPFamily, networks_of
from kubeloop.proxy.kernel.addresses import interface_addresses
from kubeloop.proxy.kernel.flow_cleaner import ConntrackCleaner
from kubeloop.proxy.metrics import ProxyMetrics
from kubeloop.proxy.node_addresses import (
    NO_DETECTOR,
    LocalTrafficDetector,
    NodeIPs,
    NodePortAddresses,
    expand_nodeport_keywords,
    nodeport_addresses,
)
from kubeloop.proxy.node_manager import NodeManager
from kubeloop.proxy.offline_table import PROXY_NAME_LABEL
from kubeloop.proxy.proxier import Proxier, ProxierDependencies
from kubeloop.proxy.rules.settings import TableSettings
from kubeloop.proxy.sync_runner import SyncIntervals
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import SharedInformerFactory

HEADLESS_LABEL: Final = "service.kubernetes.io/headless"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProxyContext:
    """Dependencies that the proxiers of a process share."""

    config: KubeProxyConfiguration
    node_name: str
    informers: SharedInformerFactory
    nftables: Nftables
    clock: Clock
    metrics: ProxyMetrics
    health: ProxyHealth
    events: HealthEvents | None = None


class ProxyApp:
    """Proxiers with the informers that feed them."""

    def __init__(
        self, context: ProxyContext, proxiers: Sequence[Proxier], health: Sequence[ServiceHealthServer]
    ) -> None:
        self.proxiers = tuple(proxiers)
        self._context = context
        self._health = tuple(health)
        informers = context.informers
        self._services = informers.for_resource(Service, labels=f"!{PROXY_NAME_LABEL}", fields="spec.clusterIP!=None")
        self._slices = informers.for_resource(EndpointSlice, labels=f"!{HEADLESS_LABEL}")
        self._cidrs = informers.for_resource(ServiceCIDR)
        for informer in (self._services, self._slices, self._cidrs):
            informer.set_transform(without_managed_fields)

    async def run(self) -> None:
        """Follow the API server and sync until cancelled; the informers are started by the caller."""
        resync = float(self._context.config.config_sync_period)
        services = self._services.add_handler(_handler(self._on_service), resync)
        slices = self._slices.add_handler(_handler(self._on_slice), resync)
        self._cidrs.add_handler(_handler(self._on_service_cidr))
        async with asyncio.TaskGroup() as group:
            for proxier in self.proxiers:
                group.create_task(proxier.run(), name=f"proxier of {proxier.settings.family}")
            group.create_task(self._mark_synced("services", services.wait_synced))
            group.create_task(self._mark_synced("slices", slices.wait_synced))

    async def close(self) -> None:
        """Close the health check node ports; the table stays."""
        await asyncio.gather(*(one.close() for one in self._health))

    async def _mark_synced(self, collection: str, wait: Callable[[], Any]) -> None:
        await wait()
        for proxier in self.proxiers:
            proxier.mark_synced(collection)

    def _on_service(self, service: Service, deleted: bool) -> None:
        self._context.metrics.service_changes.increment()
        for proxier in self.proxiers:
            proxier.on_service(service, deleted=deleted)
        self._count_pending()

    def _on_slice(self, one: EndpointSlice, deleted: bool) -> None:
        self._context.metrics.endpoint_changes.increment()
        for proxier in self.proxiers:
            proxier.on_endpoint_slice(one, deleted=deleted)
        self._count_pending()

    def _on_service_cidr(self, _: ServiceCIDR, __: bool) -> None:
        cidrs = [cidr for one in self._cidrs.list() for cidr in one.spec.cidrs]
        for proxier in self.proxiers:
            proxier.set_service_cidrs(cidrs)

    def _count_pending(self) -> None:
        pending = [proxier.pending for proxier in self.proxiers]
        self._context.metrics.services_pending.set(max(services for services, _ in pending))
        self._context.metrics.endpoints_pending.set(sum(endpoints for _, endpoints in pending))


def build_proxy(
    context: ProxyContext, manager: NodeManager, node_ips: NodeIPs, families: Iterable[IPFamily]
) -> ProxyApp:
    """Build the proxiers of all supported families; the node must be settled."""
    config = context.config
    entries = expand_nodeport_keywords(config.node_port_addresses, node_ips)
    detectors = detectors_of(config, manager.pod_cidrs)
    gates = parse_feature_gates(f"{name}={str(on).lower()}" for name, on in config.feature_gates.items())
    intervals = SyncIntervals(config.nftables.min_sync_period, config.nftables.sync_period, config.nftables.sync_period)
    proxiers, servers = [], []
    for family in families:
        node_ports = nodeport_addresses(entries, family)
        settings = TableSettings(
            family=family,
            node_ip=node_ips.by_family[family],
            masquerade_bit=config.nftables.masquerade_bit,
            masquerade_all=config.nftables.masquerade_all,
            detector=detectors.get(family, NO_DETECTOR),
            nodeport_addresses=node_ports,
        )
        server = ServiceHealthServer(
            context.node_name,
            _listen_addresses(family, node_ports),
            lambda: context.health.is_healthy,
            context.clock,
            context.events,
        )
        parts = _dependencies(context, server, family)
        allow = gates.is_enabled("AllowServiceExternalIPs")
        proxier = Proxier(settings, context.node_name, parts, intervals, allow_external_ips=allow)
        manager.follow_zone(proxier.set_zone)
        proxiers.append(proxier)
        servers.append(server)
    return ProxyApp(context, proxiers, servers)


def detectors_of(config: KubeProxyConfiguration, pod_cidrs: Iterable[str]) -> Mapping[IPFamily, LocalTrafficDetector]:
    """Return how each family detects traffic from this node's pods."""
    mode, names = config.detect_local_mode, config.detect_local
    if mode == "BridgeInterface":
        return dict.fromkeys(IP_FAMILIES, LocalTrafficDetector("interface", names.bridge_interface))
    if mode == "InterfaceNamePrefix":
        return dict.fromkeys(IP_FAMILIES, LocalTrafficDetector("interface", f"{names.interface_name_prefix}*"))
    cidrs = tuple(config.cluster_cidrs if mode == "ClusterCIDR" else pod_cidrs)
    found = {family: networks_of(cidrs, family) for family in IP_FAMILIES}
    return {family: LocalTrafficDetector("network", str(rows[0])) for family, rows in found.items() if rows}


def without_managed_fields(obj: Any) -> Any:
    """Return an object without the fields that the proxy never reads, to save memory."""
    if not obj.metadata.managed_fields:
        return obj
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, managed_fields=()))


def _dependencies(context: ProxyContext, server: ServiceHealthServer, family: IPFamily) -> ProxierDependencies:
    return ProxierDependencies(
        context.nftables,
        context.clock,
        context.metrics,
        context.health,
        server,
        ConntrackCleaner(family),
        lambda: asyncio.to_thread(interface_addresses, family),
    )


def _listen_addresses(family: IPFamily, addresses: NodePortAddresses) -> Callable[[], Sequence[str]]:
    """Return a function that returns the addresses of health check node ports."""

    def found() -> Sequence[str]:
        everything = ("0.0.0.0",) if family is IPV4 else ("::0",)  # `::` would take IPv4 connections, too
        if addresses.match_all:
            return everything
        try:
            return addresses.node_ips(interface_addresses(family))
        except OSError as error:
            log.error("health check node ports listen at all addresses: %s", error)
            return everything

    return found


def _handler(call: Callable[[Any, bool], None]) -> ResourceEventHandlerFuncs:
    return ResourceEventHandlerFuncs(
        on_add=lambda obj: call(obj, False),
        on_update=lambda _, new: call(new, False),
        on_delete=lambda obj: call(obj, True),
    )
