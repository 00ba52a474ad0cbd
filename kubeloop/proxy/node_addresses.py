# SPDX-License-Identifier: Apache-2.0
"""Addresses of the node: its primary IPs, those that accept node ports, and the detection of pod traffic. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from kubeloop.api.generated.core_v1 import Node
from kubeloop.proxy.ip_family import IP_FAMILIES, IPV4, IPV6, IPFamily, IPNetwork, family_of, networks_of, parse_ip

_LOOPBACKS: Final = {IPV4: "127.0.0.1", IPV6: "::1"}
_ALL: Final = {IPV4: "0.0.0.0/0", IPV6: "::/0"}


class NodeIPs(NamedTuple):
    """Primary family of the node, and one address of each family; loopback if the node has none."""

    primary: IPFamily
    by_family: Mapping[IPFamily, str]


def node_host_ips(node: Node) -> tuple[str, ...]:
    """Return up to two addresses of a node, one of each family: InternalIP before ExternalIP."""
    addresses = node.status.addresses
    rows = [one.address for kind in ("InternalIP", "ExternalIP") for one in addresses if one.type == kind]
    found: dict[IPFamily, str] = {}
    for text in rows:
        if (family := family_of(text)) is not None:
            found.setdefault(family, str(parse_ip(text)))
    return tuple(found.values())


def detect_node_ips(host_ips: Sequence[str], bind_address: str) -> NodeIPs:
    """Return the node's IPs: the bind address unless it is unspecified, then the Node's addresses."""
    found, primary = dict(_LOOPBACKS), IPV4
    for text in reversed(host_ips):
        primary = family_of(text) or IPV4
        found[primary] = text
    bind = parse_ip(bind_address)
    if bind is not None and not bind.is_unspecified:
        primary = IPV4 if bind.version == 4 else IPV6
        found[primary] = str(bind)
    return NodeIPs(primary, found)


def expand_nodeport_keywords(entries: Iterable[str], node_ips: NodeIPs) -> tuple[str, ...]:
    """Return entries of nodePortAddresses with `primary`, `localhost` and `all` replaced by networks."""
    expanded: list[str] = []
    for entry in entries:
        if entry == "primary":
            own = [address for family in IP_FAMILIES if (address := node_ips.by_family.get(family))]
            expanded += [f"{one}/{32 if '.' in one else 128}" for one in own if not _is_loopback(one)]
        elif entry == "localhost":
            expanded += ["127.0.0.0/8", "::1/128"]
        elif entry == "all":
            expanded += _ALL.values()
        else:
            expanded.append(entry)
    return tuple(expanded)


@dataclass(frozen=True, slots=True)
class NodePortAddresses:
    """Networks of one family whose node addresses accept node ports; all addresses without a network."""

    networks: tuple[IPNetwork, ...]

    @property
    def match_all(self) -> bool:
        """True if every address of the node accepts node ports."""
        return any(one.prefixlen == 0 for one in self.networks)

    @property
    def contains_explicit_loopback(self) -> bool:
        """True if a network is one of loopback addresses."""
        return any(one.network_address.is_loopback for one in self.networks)

    def node_ips(self, interface_addresses: Iterable[str]) -> tuple[str, ...]:
        """Return the addresses of the node's interfaces that accept node ports; never loopback."""
        found = {address for text in interface_addresses if (address := parse_ip(text)) is not None}
        chosen = [one for one in found if not one.is_loopback and any(one in network for network in self.networks)]
        return tuple(str(one) for one in sorted(chosen, key=int))


def nodeport_addresses(entries: Iterable[str], family: IPFamily) -> NodePortAddresses:
    """Return the networks of a family; all addresses if there is none of this family."""
    return NodePortAddresses(networks_of(entries, family) or (ipaddress.ip_network(_ALL[family]),))


class LocalTrafficDetector(NamedTuple):
    """Match of traffic that comes from a pod of this node: by its source network or its interface."""

    kind: Literal["", "network", "interface"] = ""
    value: str = ""  # a network, or the name of an interface; `*` at its end matches any ending

    @property
    def is_implemented(self) -> bool:
        """True if pod traffic can be detected."""
        return bool(self.kind)


NO_DETECTOR: Final = LocalTrafficDetector()


def _is_loopback(text: str) -> bool:
    found = parse_ip(text)
    return found is not None and found.is_loopback
