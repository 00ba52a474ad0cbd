# SPDX-License-Identifier: Apache-2.0
"""Endpoints of Services as the proxy sees them, read from EndpointSlices. Pure."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointSlice
from kubeloop.proxy.ip_family import join_host_port, parse_ip
from kubeloop.proxy.service_port import NamespacedName, ServicePortName

log = logging.getLogger(__name__)
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class EndpointInfo:
    """Address and port that serve a port of a Service."""

    ip: str
    port: int
    is_local: bool = False  # on the proxy's node
    is_ready: bool = True
    is_serving: bool = True
    is_terminating: bool = False
    zone_hints: frozenset[str] = _NONE
    node_hints: frozenset[str] = _NONE

    @property
    def address(self) -> str:
        """Address and port as text."""
        return join_host_port(self.ip, self.port)


EndpointsByPort = Mapping[ServicePortName, tuple[EndpointInfo, ...]]


def endpoints_of(service: NamespacedName, slices: Iterable[EndpointSlice], node_name: str) -> EndpointsByPort:
    """Return the endpoints of a Service by port, sorted by address; each address and port once.

    Of two entries with the same address, one of a terminating pod gives way: the address may have been used again.
    """
    found: dict[ServicePortName, dict[str, EndpointInfo]] = {}
    for one in slices:
        for port in one.ports or ():
            if port.name is None or not port.port:
                log.debug("EndpointSlice %s: a port without name or number is ignored", one.metadata.name)
                continue
            by_address = found.setdefault(ServicePortName(service, port.name, port.protocol or "TCP"), {})
            for endpoint in one.endpoints or ():
                _add(by_address, endpoint, port.port, node_name)
    return {name: tuple(rows[key] for key in sorted(rows)) for name, rows in found.items() if rows}


def _add(by_address: dict[str, EndpointInfo], endpoint: Endpoint, port: int, node_name: str) -> None:
    address = parse_ip(endpoint.addresses[0]) if endpoint.addresses else None
    if address is None:
        log.debug("an endpoint without a valid address is ignored")
        return
    conditions, hints = endpoint.conditions, endpoint.hints
    info = EndpointInfo(
        ip=str(address),
        port=port,
        is_local=bool(node_name) and endpoint.node_name == node_name,
        is_ready=conditions.ready is not False,
        is_serving=conditions.serving is not False,
        is_terminating=conditions.terminating is True,
        zone_hints=frozenset(zone.name for zone in hints.for_zones) if hints is not None else _NONE,
        node_hints=frozenset(node.name for node in hints.for_nodes) if hints is not None else _NONE,
    )
    if info.address not in by_address or not info.is_terminating:
        by_address[info.address] = info
