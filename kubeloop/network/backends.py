# SPDX-License-Identifier: Apache-2.0
"""Backends of the pod network: how packets to pods of other nodes travel."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from kubeloop.network.desired_state import (
    HOST_GW,
    VXLAN,
    VXLAN_OVERHEAD,
    VxlanSettings,
    host_gateway_state,
    vxlan_state,
)
from kubeloop.network.netlink.kernel_state import KernelState
from kubeloop.network.nodes import ClusterNode


class NetworkBackend(Protocol):
    """Backend of the pod network."""

    @property
    def name(self) -> str:
        """Name of the backend, as in --backend."""

    @property
    def reaches_nodes_directly(self) -> bool:
        """True if packets between a pod and another node take the same way in both directions."""

    def overhead(self, own: ClusterNode) -> int:
        """Return the bytes by which a packet grows on its way."""

    def kernel_state(self, own: ClusterNode, nodes: Collection[ClusterNode], link_mtu: int) -> KernelState:
        """Return the desired state of the kernel."""

    async def sync(self, own: ClusterNode, nodes: Collection[ClusterNode]) -> None:
        """Bring everything outside the kernel to the desired state; raises an error to be called again."""


class HostGatewayBackend:
    """Routes by the addresses of nodes, which must be on one link."""

    name = HOST_GW
    reaches_nodes_directly = True

    def overhead(self, own: ClusterNode) -> int:
        """Return 0: packets are not changed."""
        return 0

    def kernel_state(self, own: ClusterNode, nodes: Collection[ClusterNode], link_mtu: int) -> KernelState:
        """Return a route to each node's pod CIDRs."""
        return host_gateway_state(own, nodes)

    async def sync(self, own: ClusterNode, nodes: Collection[ClusterNode]) -> None:
        """Do nothing."""


class VxlanBackend:
    """Tunnels between nodes, which need to reach each other by UDP only."""

    name = VXLAN
    reaches_nodes_directly = False

    def __init__(self, settings: VxlanSettings) -> None:
        self._settings = settings

    def overhead(self, own: ClusterNode) -> int:
        """Return the size of the headers of a tunnel."""
        return VXLAN_OVERHEAD[own.addresses[0].version if own.addresses else 4]

    def kernel_state(self, own: ClusterNode, nodes: Collection[ClusterNode], link_mtu: int) -> KernelState:
        """Return the tunnel with an entry and a route for each node."""
        return vxlan_state(own, nodes, self._settings, link_mtu)

    async def sync(self, own: ClusterNode, nodes: Collection[ClusterNode]) -> None:
        """Do nothing."""
