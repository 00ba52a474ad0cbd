# SPDX-License-Identifier: Apache-2.0
"""Registers the nodes of an agent, and corrects Nodes that another process has created before."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from kubeloop.api import codec
from kubeloop.api.errors import AlreadyExists
from kubeloop.api.generated.core_v1 import Node
from kubeloop.client import Client
from kubeloop.kubelet.node_status.registration import correction_patches
from kubeloop.kubelet.node_status.served_nodes import ServedNodes

NOT_READY_TAINT = "node.kubernetes.io/not-ready"

log = logging.getLogger(__name__)


class NodeRegistrar:
    """Creates the nodes of an agent once; a node that is deleted later is not created again.

    `wanted` are the nodes to be created if they do not exist, `corrections` the nodes that existing ones are corrected
    by when they are first seen, both by name.
    """

    def __init__(
        self,
        client: Client,
        served_nodes: ServedNodes,
        wanted: Mapping[str, Node],
        corrections: Mapping[str, Node],
        *,
        untaint: bool,
    ) -> None:
        self._client = client
        self._served_nodes = served_nodes
        self._wanted = dict(wanted)
        self._corrections = dict(corrections)
        self._untaint = untaint
        self._registered = asyncio.Event()
        if not self._wanted:
            self._registered.set()

    async def wait_registered(self) -> None:
        """Wait until all nodes are registered."""
        await self._registered.wait()

    def is_wanted(self, name: str) -> bool:
        """Return True if a node is to be registered."""
        return name in self._wanted

    async def create_node(self, name: str) -> Node | None:
        """Create a node; return None if it exists."""
        try:
            node: Node = await self._client.create(self._wanted[name])
        except AlreadyExists:
            return None
        self._corrections.pop(name, None)
        return node

    async def get_existing(self, name: str) -> Node:
        """Return a node that exists already."""
        return await self._client.get(Node, name)

    async def remove_initial_taint(self, node: Node) -> Node:
        """Remove the initial not-ready taint, for clusters without the controller that does."""
        kept = [one for one in node.spec.taints if one.key != NOT_READY_TAINT]
        if not self._untaint or len(kept) == len(node.spec.taints):
            return node
        patch = {"spec": {"taints": codec.to_plain(kept) or None}}
        patched: Node = await self._client.patch(Node, node.metadata.name, patch)
        return patched

    def set_registered(self, node: Node) -> None:
        """Record that a node exists."""
        name = node.metadata.name
        if not self._served_nodes.serves(node):
            log.error("node %s cannot be simulated: a node with this name exists", name)
        del self._wanted[name]
        if not self._wanted:
            self._registered.set()

    async def correct(self, node: Node) -> None:
        """Correct the metadata, addresses and other facts of a Node when it is first seen."""
        name = node.metadata.name
        if (facts := self._corrections.get(name)) is None:
            return
        about, status = correction_patches(node, facts)
        if about:
            await self._client.patch(Node, name, about)
        if status:
            await self._client.patch(Node, name, status, subresource="status")
        del self._corrections[name]
