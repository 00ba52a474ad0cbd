# SPDX-License-Identifier: Apache-2.0
"""Part of the table for one port of a Service: elements of sets and maps, shared chains, and chains of its own. Pure.

Ports with the same number of endpoints share a chain, which looks up an endpoint in a map by a random number. Only
session affinity and source ranges need chains of the port's own. So a change of one port costs the same however many
Services there are: nft reads the names of all chains at each call.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kubeloop.proxy.endpoint import EndpointInfo
from kubeloop.proxy.endpoint_selection import EndpointSelection
from kubeloop.proxy.ip_family import parse_ip
from kubeloop.proxy.rules import names
from kubeloop.proxy.rules.affinity import affinity_chains, affinity_sets
from kubeloop.proxy.rules.settings import TableSettings
from kubeloop.proxy.rules.shared_chains import SharedChain, external_chain, plain_chain
from kubeloop.proxy.rules.statements import Match, Rule, Rules, Statement
from kubeloop.proxy.service_port import ServicePortInfo, ServicePortName

REJECT_VERDICT: Final = f"goto {names.REJECT}"


class ElementKey(NamedTuple):
    """Name of a set or map, and the key of one of its elements."""

    container: str
    key: str


class ElementValue(NamedTuple):
    """Value and comment of an element; a set's element has no value."""

    value: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class PortRules:
    """Part of the table for one port of a Service."""

    elements: Mapping[ElementKey, ElementValue] = field(default_factory=dict)
    shared_chains: frozenset[SharedChain] = frozenset()
    chains: Mapping[str, Rules] = field(default_factory=dict)
    affinity_sets: Mapping[str, int] = field(default_factory=dict)  # seconds by name
    lacks_internal: bool = False  # the internal policy is Local, and this node has no endpoint
    lacks_external: bool = False  # likewise of the external policy


class _Traffic(NamedTuple):
    """Verdicts of a port: chains for internal and external traffic, and what the filter chains do; empty for none."""

    internal: str
    external: str
    external_nodeport: str
    filter_internal: str
    filter_external: str
    shared_chains: frozenset[SharedChain] = frozenset()


def build_port_rules(
    name: ServicePortName, port: ServicePortInfo, selection: EndpointSelection, settings: TableSettings
) -> PortRules:
    """Return the part of the table for one port, as upstream's proxier does it."""
    traffic = _traffic(name, port, selection)
    elements = _Elements(str(name), port.protocol.lower())
    elements.add_frontends(port, traffic)
    elements.add_hairpins(selection.reachable)
    chains: dict[str, Rules] = {}
    if not port.affinity_seconds:
        elements.add_endpoints(port, selection)
    elif selection.has_endpoints:
        chains = affinity_chains(name, port, selection, settings)
    if port.source_ranges and port.load_balancer_vips:
        firewall = f"firewall-{names.port_chain_base(name)}"
        chains[firewall] = _firewall(port, settings)
        for address in port.load_balancer_vips:
            elements.put(names.FIREWALL_IPS, elements.at(address, port.port), f"goto {firewall}")
    return PortRules(
        elements.found,
        traffic.shared_chains,
        chains,
        affinity_sets(name, port, selection.reachable) if port.affinity_seconds else {},
        traffic.filter_internal == "drop",
        traffic.filter_external == "drop",
    )


def _traffic(name: ServicePortName, port: ServicePortInfo, selection: EndpointSelection) -> _Traffic:
    """Return the verdicts of a port.

    Without local endpoints, the policy Local drops; external traffic still has its chain, for the node's own packets.
    """
    if not selection.has_endpoints:
        return _Traffic("", "", "", REJECT_VERDICT, REJECT_VERDICT)
    filter_internal = "drop" if port.internal_policy_local and not selection.local else ""
    filter_external = "drop" if port.external_policy_local and not selection.local else ""
    if port.affinity_seconds:
        base = names.port_chain_base(name)
        internal = "" if filter_internal else f"goto {'local' if port.internal_policy_local else 'service'}-{base}"
        return _Traffic(internal, f"goto external-{base}", f"goto external-{base}", filter_internal, filter_external)
    plain, external, nodeport = _shared_chains(port, selection)
    used = {
        plain: not filter_internal,
        external: bool(port.external_ips or port.load_balancer_vips),
        nodeport: bool(port.node_port),
    }
    shared = frozenset(one for chain, is_used in used.items() if is_used for one in (chain, *chain.uses()))
    internal = "" if filter_internal else f"goto {plain.name}"
    return _Traffic(
        internal, f"goto {external.name}", f"goto {nodeport.name}", filter_internal, filter_external, shared
    )


def _shared_chains(port: ServicePortInfo, selection: EndpointSelection) -> tuple[SharedChain, SharedChain, SharedChain]:
    """Return the chains for a port's internal traffic, its external addresses and its node port."""
    protocol, clusters, locals_ = port.protocol.lower(), len(selection.cluster), len(selection.local)
    is_local = port.internal_policy_local
    plain = plain_chain(protocol, locals_ if is_local else clusters, is_local=is_local)
    external = external_chain(protocol, clusters, locals_, is_local=port.external_policy_local)
    return plain, external, external._replace(is_nodeport=True)


class _Elements:
    """Elements of one port."""

    def __init__(self, comment: str, protocol: str) -> None:
        self.found: dict[ElementKey, ElementValue] = {}
        self._comment = comment
        self._protocol = protocol

    def at(self, address: str, port: int) -> str:
        """Return the key of a service IP."""
        return f"{address} . {self._protocol} . {port}"

    def put(self, container: str, key: str, value: str = "", comment: str = "") -> None:
        """Add an element."""
        self.found[ElementKey(container, key)] = ElementValue(value, comment)

    def add_frontends(self, port: ServicePortInfo, traffic: _Traffic) -> None:
        """Add the elements by which packets find the port."""
        self.put(names.CLUSTER_IPS, port.cluster_ip)
        by_address = (names.SERVICE_IPS, names.NO_ENDPOINT_SERVICES)
        internal, external = traffic.filter_internal, traffic.filter_external
        self._put_verdicts(by_address, self.at(port.cluster_ip, port.port), traffic.internal, internal)
        for address in (*port.external_ips, *port.load_balancer_vips):
            self._put_verdicts(by_address, self.at(address, port.port), traffic.external, external)
        if port.node_port:
            by_port = (names.SERVICE_NODEPORTS, names.NO_ENDPOINT_NODEPORTS)
            key = f"{self._protocol} . {port.node_port}"
            self._put_verdicts(by_port, key, traffic.external_nodeport, external)

    def _put_verdicts(self, maps: tuple[str, str], key: str, verdict: str, filter_verdict: str) -> None:
        """Add an element to the map of the NAT chains and to that of the filter chains, if there is a verdict."""
        for container, value in zip(maps, (verdict, filter_verdict), strict=True):
            if value:
                self.put(container, key, value, self._comment)

    def add_endpoints(self, port: ServicePortInfo, selection: EndpointSelection) -> None:
        """Add the endpoints under each service IP and the node port, as far as traffic can use them."""
        internal_local, external_local = port.internal_policy_local, port.external_policy_local
        cluster_ip = f"{port.cluster_ip} . {port.port}"
        if internal_local:
            self._number(names.SERVICE_LOCAL_ENDPOINTS, cluster_ip, selection.local)
        else:
            self._number(names.SERVICE_ENDPOINTS, cluster_ip, selection.cluster)
        for address in (*port.external_ips, *port.load_balancer_vips):
            key = f"{address} . {port.port}"
            self._number(names.SERVICE_ENDPOINTS, key, selection.cluster)
            if external_local:
                self._number(names.SERVICE_LOCAL_ENDPOINTS, key, selection.local)
        if port.node_port:
            key = str(port.node_port)
            self._number(names.NODEPORT_ENDPOINTS, key, selection.cluster)
            if external_local:
                self._number(names.NODEPORT_LOCAL_ENDPOINTS, key, selection.local)

    def _number(self, kind: str, key: str, endpoints: Iterable[EndpointInfo]) -> None:
        container = names.endpoint_map(kind, self._protocol)
        for number, one in enumerate(endpoints):
            self.put(container, f"{key} . {number}", f"{one.ip} . {one.port}")

    def add_hairpins(self, reachable: Iterable[EndpointInfo]) -> None:
        """Add the connections of local endpoints to themselves, which have to be masqueraded."""
        for one in reachable:
            if one.is_local:
                self.put(names.HAIRPIN_CONNECTIONS, f"{one.ip} . {one.ip} . {self._protocol} . {one.port}")


def _firewall(port: ServicePortInfo, settings: TableSettings) -> Rules:
    """Return the rule that drops packets from outside of the source ranges.

    If the node is within them, so are the VIPs: a packet of the node to a VIP that it owns has the VIP as its source.
    """
    node = parse_ip(settings.node_ip)
    allows_node = any(node in ipaddress.ip_network(one) for one in port.source_ranges if node is not None)
    sources = (*port.source_ranges, *(port.load_balancer_vips if allows_node else ()))
    merged = ipaddress.collapse_addresses(ipaddress.ip_network(one) for one in sources)  # type: ignore[type-var]  # of one family
    return (Rule(Statement("drop"), (Match("source in networks", tuple(map(str, merged)), negated=True),)),)
