# SPDX-License-Identifier: Apache-2.0
"""Connections to nodes: kubelets of this process by their dialers, others by the kubelet client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubeloop.api.kubelet_requests import NodeDialer

if TYPE_CHECKING:
    from kubeloop.apiserver.kubelet_client.dialer import KubeletClient


class NodeConnections:
    """Dialers of all nodes; without a kubelet client, nodes of other processes cannot be reached."""

    def __init__(self, kubelets: KubeletClient | None) -> None:
        self.kubelets = kubelets
        self._local: list[NodeDialer] = []

    def add_local(self, nodes: NodeDialer) -> None:
        """Reach the nodes of kubelets in this process by their dialer, the one added last first."""
        self._local.insert(0, nodes)

    def local_dialer(self, node: str) -> NodeDialer | None:
        """Return the dialer of a node of this process, else None."""
        return next((one for one in self._local if one.can_reach(node)), None)
