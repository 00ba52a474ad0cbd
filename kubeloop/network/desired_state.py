# SPDX-License-Identifier: Apache-2.0
"""Desired routes, neighbours and tunnel of a node, as a function of all nodes. Pure."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

from kubeloop.network.netlink.kernel_state import (
    VXLAN_LINK,
    ForwardingEntry,
    KernelRoute,
    KernelState,
    Neighbour,
    VxlanLink,
)
from kubeloop.network.nodes import ClusterNode, PodNetwork

HOST_GW, VXLAN, BGP = "host-gw", "vxlan", "bgp"
BACKENDS: Final = (HOST_GW, VXLAN, BGP)
# Headers around a packet in a tunnel: outer Ethernet, IP, UDP, VXLAN.
VXLAN_OVERHEAD: Final = {4: 50, 6: 70}
_LINK_LOCAL: Final = int(IPv6Address("fe80::"))


@dataclass(frozen=True, slots=True)
class VxlanSettings:
    """Settings of tunnels: equal on all nodes."""

    vni: int = 1
    port: int = 8472


def unreachable_routes(node: ClusterNode) -> frozenset[KernelRoute]:
    """Return routes that reject unused addresses of the node's own pod CIDRs, so that packets to them do not loop."""
    return frozenset(KernelRoute(str(network)) for network in node.pod_cidrs)


def simulated_pod_routes(nodes: Iterable[ClusterNode]) -> frozenset[KernelRoute]:
    """Return routes that reject packets to pods of simulated nodes, which would otherwise leave the machine."""
    return frozenset(route for node in nodes if node.is_simulated for route in unreachable_routes(node))


def host_gateway_state(own: ClusterNode, nodes: Iterable[ClusterNode]) -> KernelState:
    """Return the state of backend host-gw: a route to each node's pod CIDRs by the node's address."""
    routes = set(unreachable_routes(own))
    for network, node in _remote_networks(own, nodes):
        gateway = node.address(network.version)
        if gateway is not None:
            routes.add(KernelRoute(str(network), str(gateway)))
    return KernelState(frozenset(routes))


def vxlan_state(own: ClusterNode, nodes: Iterable[ClusterNode], settings: VxlanSettings, link_mtu: int) -> KernelState:
    """Return the state of backend vxlan: one tunnel of the primary IP family, which carries packets of both families.

    A pod CIDR is routed to the first address of it (IPv4), or to the link-local address of the node's tunnel (IPv6).
    """
    if not own.addresses or not own.pod_cidrs:
        return KernelState(unreachable_routes(own))
    local = own.addresses[0]
    routes = set(unreachable_routes(own))
    neighbours, forwarding = set(), set()
    for network, node in _remote_networks(own, nodes):
        remote = node.address(local.version)
        if remote is None:
            continue
        gateway = tunnel_gateway(node, network)
        routes.add(KernelRoute(str(network), gateway, VXLAN_LINK))
        neighbours.add(Neighbour(gateway, node.tunnel_mac))
        forwarding.add(ForwardingEntry(node.tunnel_mac, str(remote)))
    mtu = link_mtu - VXLAN_OVERHEAD[local.version]
    addresses = {f"{network[0]}/{network.max_prefixlen}" for network in own.pod_cidrs}
    addresses |= {f"{tunnel_gateway(own, network)}/64" for network in own.pod_cidrs if network.version == 6}
    link = VxlanLink(settings.vni, settings.port, own.tunnel_mac, str(local), mtu, tuple(sorted(addresses)))
    return KernelState(frozenset(routes), link, frozenset(neighbours), frozenset(forwarding))


def tunnel_gateway(node: ClusterNode, network: PodNetwork) -> str:
    """Return the address of a node's tunnel end point in the overlay."""
    if network.version == 4:
        return str(network[0])
    mac = int(node.tunnel_mac.replace(":", ""), 16)
    upper, lower = (mac >> 24) ^ 0x020000, mac & 0xFFFFFF  # the modified EUI-64 of the MAC address
    return str(ip_address(_LINK_LOCAL | upper << 40 | 0xFFFE << 24 | lower))


def unreachable_nodes(own: ClusterNode, nodes: Iterable[ClusterNode], backend: str) -> dict[str, str]:
    """Return the nodes that no route leads to, with the reason."""
    found: dict[str, str] = {}
    for network, node in _remote_networks(own, nodes):
        version = own.addresses[0].version if backend == VXLAN and own.addresses else network.version
        if node.address(version) is None:
            found[node.name] = f"it has no IPv{version} address"
    return found


def _remote_networks(own: ClusterNode, nodes: Iterable[ClusterNode]) -> list[tuple[PodNetwork, ClusterNode]]:
    """Return the pod CIDRs of other nodes; one that overlaps an earlier one, or the own ones, is left out."""
    taken: dict[int, list[tuple[int, int]]] = {4: [], 6: []}  # first and last addresses, disjoint and sorted
    for network in own.pod_cidrs:
        insort(taken[network.version], _bounds(network))
    found: list[tuple[PodNetwork, ClusterNode]] = []
    for node in sorted(nodes, key=lambda one: one.name):
        for network in node.pod_cidrs if node.name != own.name else ():
            first, last = _bounds(network)
            others = taken[network.version]
            place = bisect_right(others, (first, last))
            if (place and others[place - 1][1] >= first) or (place < len(others) and others[place][0] <= last):
                continue
            others.insert(place, (first, last))
            found.append((network, node))
    return found


def _bounds(network: PodNetwork) -> tuple[int, int]:
    return int(network[0]), int(network[-1])
