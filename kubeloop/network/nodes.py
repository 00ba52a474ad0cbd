# SPDX-License-Identifier: Apache-2.0
"""Nodes as the pod network sees them: pod CIDRs, addresses between nodes, and the MAC address of the tunnel."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, TypeAlias

from kubeloop.api.addresses import parse_cidr, parse_ip
from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.kubelet_requests import SIMULATED_NODE_ANNOTATION

# Set by the agent of a node whose traffic uses other addresses than the InternalIP of its status (--node-ip).
ADDRESSES_ANNOTATION: Final = "network.kubeloop.io/node-ips"
ROUTE_REFLECTOR_LABEL: Final = "network.kubeloop.io/route-reflector"
_INTERNAL: Final = "InternalIP"

NodeIP: TypeAlias = IPv4Address | IPv6Address
PodNetwork: TypeAlias = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """Node of the pod network."""

    name: str
    pod_cidrs: tuple[PodNetwork, ...] = ()
    addresses: tuple[NodeIP, ...] = ()  # the first of each family; the first one of all is the node's primary address
    labels: Mapping[str, str] = field(default_factory=dict)
    is_simulated: bool = False  # its pods exist in the API only: no packet can reach them

    def address(self, version: int) -> NodeIP | None:
        """Return the node's address of an IP family."""
        return next((one for one in self.addresses if one.version == version), None)

    @property
    def tunnel_mac(self) -> str:
        """MAC address of the node's tunnel end point: locally administered, and a function of the node's name.

        Every agent can compute it, so that nothing has to be published, and it survives a restart of the node.
        """
        digest = hashlib.sha256(f"kubeloop vxlan {self.name}".encode()).digest()
        return ":".join(f"{byte:02x}" for byte in (0x02, *digest[:5]))


def cluster_node_of(node: Node) -> ClusterNode:
    """Return a node's network; invalid values are left out."""
    texts = node.spec.pod_cidrs or ((node.spec.pod_cidr,) if node.spec.pod_cidr else ())
    cidrs = tuple(parsed[1] for text in texts if (parsed := parse_cidr(text)) is not None)
    is_simulated = SIMULATED_NODE_ANNOTATION in node.metadata.annotations
    return ClusterNode(node.metadata.name, cidrs, _addresses_of(node), node.metadata.labels, is_simulated)


def _addresses_of(node: Node) -> tuple[NodeIP, ...]:
    published = node.metadata.annotations.get(ADDRESSES_ANNOTATION, "")
    texts = [text.strip() for text in published.split(",")] if published else []
    texts = texts or [one.address for one in node.status.addresses if one.type == _INTERNAL]
    found: dict[int, NodeIP] = {}
    for text in texts:
        address = parse_ip(text)
        if address is not None:
            found.setdefault(address.version, address)
    return tuple(found.values())
