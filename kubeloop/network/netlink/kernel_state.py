# SPDX-License-Identifier: Apache-2.0
"""State of the kernel's network that belongs to the agent: as it is, and as it should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

# Number of routes of ours, in the range that is free for programs (`ip route show proto 75`).
ROUTE_PROTOCOL: Final = 75
# Routes that reject unused addresses of the own pod CIDR must lose against any other route to the same network.
UNREACHABLE_METRIC: Final = 1 << 30
VXLAN_LINK: Final = "kubeloop-vxlan"


class KernelRoute(NamedTuple):
    """Route of the main table. Without a gateway, packets to the network are rejected."""

    destination: str  # a network in canonical form
    gateway: str = ""
    link: str = ""  # name of the link of an overlay, where the gateway is reached without a route of its own

    @property
    def is_ipv6(self) -> bool:
        """True for IPv6."""
        return ":" in self.destination


class Neighbour(NamedTuple):
    """Permanent neighbour entry of an overlay's link: the MAC address of another node's gateway."""

    address: str
    mac: str


class ForwardingEntry(NamedTuple):
    """Entry of the forwarding database of an overlay's link: the node that has a MAC address."""

    mac: str
    node_address: str


@dataclass(frozen=True, slots=True)
class VxlanLink:
    """Tunnel end point of the node."""

    vni: int
    port: int
    mac: str
    local: str  # address of the node that tunnels end at
    mtu: int
    addresses: tuple[str, ...]  # addresses with prefix length: source of the node's own traffic to pods
    name: str = VXLAN_LINK


@dataclass(frozen=True, slots=True)
class KernelState:
    """Routes and tunnel of the agent. Without a tunnel, a link of ours is removed."""

    routes: frozenset[KernelRoute] = frozenset()
    link: VxlanLink | None = None
    neighbours: frozenset[Neighbour] = frozenset()
    forwarding: frozenset[ForwardingEntry] = frozenset()
