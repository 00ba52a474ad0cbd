# SPDX-License-Identifier: Apache-2.0
"""Finds UDP flows to a Service whose endpoint no longer serves: the kernel would keep using it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubeloop.proxy.endpoint import EndpointInfo
from kubeloop.proxy.kernel.conntrack import UdpFlow
from kubeloop.proxy.service_port import ServicePortInfo, ServicePortName

Backend = tuple[str, int]
Frontends = Mapping[Backend, frozenset[Backend]]


class UdpFrontends:
    """Addresses and node ports of all UDP ports of Services, with the endpoints that serve them."""

    def __init__(self) -> None:
        self._by_port: dict[ServicePortName, tuple[ServicePortInfo, frozenset[Backend]]] = {}

    def set_port(self, name: ServicePortName, port: ServicePortInfo | None, endpoints: Iterable[EndpointInfo]) -> None:
        """Set a port with its endpoints, or remove it; ports of other protocols are ignored."""
        if port is None or port.protocol != "UDP":
            self._by_port.pop(name, None)
        else:
            self._by_port[name] = port, frozenset((one.ip, one.port) for one in endpoints if one.is_serving)

    def snapshot(self) -> Frontends:
        """Return the serving endpoints by address and port; a node port is under an empty address.

        A node port without endpoints is left out: flows of others may have the same port number.
        """
        found: dict[Backend, frozenset[Backend]] = {}
        for port, backends in self._by_port.values():
            for address in (port.cluster_ip, *port.load_balancer_vips, *port.external_ips):
                found[address, port.port] = backends
            if port.node_port and backends:
                found["", port.node_port] = backends
        return found


def stale_flows(flows: Iterable[UdpFlow], frontends: Frontends) -> list[UdpFlow]:
    """Return the flows to a frontend whose endpoint is not one of its serving endpoints."""
    found = []
    for flow in flows:
        backend = (flow.endpoint, flow.endpoint_port)
        for frontend in ((flow.destination, flow.destination_port), ("", flow.destination_port)):
            serving = frontends.get(frontend)
            if serving is not None and backend not in serving:
                found.append(flow)
                break
    return found
