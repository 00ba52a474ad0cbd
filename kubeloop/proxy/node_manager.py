# SPDX-License-Identifier: Apache-2.0
"""Follows the proxy's own Node: its addresses, pod networks and zone. A change of the first two ends the program."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from kubeloop.api.generated.core_v1 import Node
from kubeloop.proxy.node_addresses import node_host_ips
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import Informer, SharedInformerFactory

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
NODE_IPS_SECONDS: Final = 30.0
POD_CIDRS_SECONDS: Final = 300.0

log = logging.getLogger(__name__)


class NodeError(Exception):
    """Raised if the proxy has to be started again: its Node has changed, is gone, or has no pod network."""


class NodeManager:
    """Latest state of the proxy's Node."""

    def __init__(self, informers: SharedInformerFactory, name: str, *, needs_pod_cidrs: bool) -> None:
        self._informer: Informer = informers.for_resource(Node, fields=f"metadata.name={name}")
        self._name = name
        self._needs_pod_cidrs = needs_pod_cidrs
        self._changed = asyncio.Event()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._followers: list[Callable[[str], None]] = []
        self._is_settled = False
        self.node: Node | None = None
        self.host_ips: tuple[str, ...] = ()
        self.pod_cidrs: tuple[str, ...] = ()
        self._informer.add_handler(
            ResourceEventHandlerFuncs(
                on_add=self._on_change, on_update=lambda _, new: self._on_change(new), on_delete=self._on_delete
            )
        )

    @property
    def zone(self) -> str:
        """Zone of the node, from its label."""
        return self.node.metadata.labels.get(ZONE_LABEL, "") if self.node is not None else ""

    def follow_zone(self, call: Callable[[str], None]) -> None:
        """Call a function with the zone, now and when the node changes."""
        self._followers.append(call)
        call(self.zone)

    async def settle(self) -> None:
        """Wait until the node has addresses, and pod networks if they are needed; from then on they must not change.

        A node without addresses is accepted after some time. Raises `NodeError` without pod networks.
        """
        await self._wait(lambda: bool(self._current_ips()), NODE_IPS_SECONDS)
        if self._needs_pod_cidrs:
            await self._wait(lambda: self.node is not None and bool(self.node.spec.pod_cidrs), POD_CIDRS_SECONDS)
            if self.node is None:
                raise NodeError(f'timeout waiting for node "{self._name}" to exist')
            if not self.node.spec.pod_cidrs:
                raise NodeError(f'timeout waiting for PodCIDR allocation on node "{self._name}"')
        if self.node is None:
            log.error("node %s does not exist", self._name)
        elif not self._current_ips():
            log.error("node %s has no addresses", self._name)
        self.host_ips = self._current_ips()
        self.pod_cidrs = self.node.spec.pod_cidrs if self.node is not None else ()
        self._is_settled = True

    async def watch(self) -> None:
        """Wait until the proxy has to be started again. Raises `NodeError`."""
        await self._failure

    async def _wait(self, is_met: Callable[[], bool], seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not is_met():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return

    def _current_ips(self) -> tuple[str, ...]:
        return node_host_ips(self.node) if self.node is not None else ()

    def _on_change(self, node: Node) -> None:
        self.node = node
        self._changed.set()
        for call in self._followers:
            call(self.zone)
        if not self._is_settled:
            return
        if self._needs_pod_cidrs and node.spec.pod_cidrs != self.pod_cidrs:
            self._fail(f"the pod networks of node {self._name} have changed to {', '.join(node.spec.pod_cidrs)}")
        if (addresses := self._current_ips()) != self.host_ips:
            self._fail(f"the addresses of node {self._name} have changed to {', '.join(addresses)}")

    def _on_delete(self, node: Node) -> None:
        if self._is_settled:
            self._fail(f"node {self._name} is being deleted")

    def _fail(self, message: str) -> None:
        if not self._failure.done():
            self._failure.set_exception(NodeError(message))
