# SPDX-License-Identifier: Apache-2.0
"""Builds a node's table from lists of objects, without a kernel: for traces and explanations. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.proxy.endpoint_selection import NodeTopology, select_endpoints
from kubeloop.proxy.rules.base_table import base_rules
from kubeloop.proxy.rules.names import NODEPORT_IPS
from kubeloop.proxy.rules.port_rules import ElementKey, build_port_rules
from kubeloop.proxy.rules.settings import TableSettings
from kubeloop.proxy.rules.table import ProxyTable
from kubeloop.proxy.tracker.endpoint_slices import EndpointsChangeTracker
from kubeloop.proxy.tracker.services import ServiceChangeTracker

PROXY_NAME_LABEL: Final = "service.kubernetes.io/service-proxy-name"


@dataclass(frozen=True, slots=True)
class ClusterObjects:
    """Objects that decide on a table."""

    services: Iterable[Service]
    slices: Iterable[EndpointSlice]
    service_cidrs: tuple[str, ...] = ()


def build_table(
    objects: ClusterObjects, settings: TableSettings, topology: NodeTopology, node_addresses: Iterable[str] = ()
) -> ProxyTable:
    """Return the table that a node's proxy would write."""
    services = ServiceChangeTracker(settings.family)
    endpoints = EndpointsChangeTracker(settings.family, topology.node_name, datetime.max.replace(tzinfo=UTC))
    for service in objects.services:
        if PROXY_NAME_LABEL not in service.metadata.labels:
            services.update(service)
    for one in objects.slices:
        if endpoints.accepts(one):
            endpoints.update(one)
    endpoints.checkout()
    table = ProxyTable(settings)
    table.set_chains(base_rules(settings, objects.service_cidrs))
    if not settings.nodeport_addresses.match_all:
        accepted = settings.nodeport_addresses.node_ips(node_addresses)
        table.set_node_elements([ElementKey(NODEPORT_IPS, address) for address in accepted])
    for name in services:
        rows = endpoints.endpoints_of(name)
        for port_name, port in services.ports_of(name).items():
            selection = select_endpoints(rows.get(port_name, ()), port, topology)
            table.set_port(port_name, build_port_rules(port_name, port, selection, settings))
    return table
