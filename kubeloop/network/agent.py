# SPDX-License-Identifier: Apache-2.0
"""Pod network of one node: routes or tunnels to other nodes, masquerading, CNI configuration, node condition.

Watches: nodes.
Owns: routes of protocol 75, the link `kubeloop-vxlan`, the table `kubeloop-masquerade`, its file in the CNI folder.
Writes: the condition NetworkUnavailable and the annotation network.kubeloop.io/node-ips of the own node.
Wakes itself: every 30 s, to restore what others have changed in the kernel.
Differs from upstream: there is no upstream implementation; Flannel's backends are the model.

The state of the kernel is read in each round and only the difference is applied, so that the state of an earlier
process is taken over without an interruption.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from kubeloop.api.generated.core_v1 import Node
from kubeloop.clock import Clock
from kubeloop.network.backends import NetworkBackend
from kubeloop.network.cni.cni_config import CniSettings, build_config, encode_config
from kubeloop.network.cni.config_writer import ConfigWriter
from kubeloop.network.desired_state import simulated_pod_routes, unreachable_nodes
from kubeloop.network.masquerade import CHECK, REMOVAL, internal_networks, masquerade_script
from kubeloop.network.netlink.difference import difference
from kubeloop.network.netlink.kernel import NetlinkFailure, NetworkKernel
from kubeloop.network.node_status import NodeStatusWriter
from kubeloop.network.nodes import ClusterNode, PodNetwork, cluster_node_of
from kubeloop.network.retry_queue import new_queue
from kubeloop.network.sysctls import enable_forwarding
from kubeloop.nftables import Nftables, NftablesError
from kubeloop.runtime.controller import Controller, Result, Telemetry
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import Informer, SharedInformerFactory
from kubeloop.runtime.objects.keys import ObjectKey

NAME: Final = "pod-network"
_KEY: Final = ObjectKey("", "network")
_CHECK_SECONDS: Final = 30.0
_TIMEOUT: Final = 120.0
_MIN_MTU: Final = 1280  # of IPv6

log = logging.getLogger(__name__)


class PodNetworkError(Exception):
    """Reason for which the pod network of the node is not complete."""


@dataclass(frozen=True, slots=True)
class PodNetworkConfig:
    """Settings of the pod network of a node."""

    node_name: str
    cni: CniSettings = field(default_factory=CniSettings)
    cni_folder: Path | None = None  # None: the configuration is written by somebody else
    mtu: int = 0  # 0: of the node's link
    node_ips: tuple[str, ...] = ()
    masquerades: bool = True
    internal_networks: tuple[PodNetwork, ...] = ()  # that pods reach with their own addresses, besides pods
    proc: Path = Path("/proc")


@dataclass(frozen=True, slots=True)
class PodNetworkParts:
    """Interfaces to the node's kernel and to the API."""

    backend: NetworkBackend
    kernel: NetworkKernel
    nftables: Nftables
    status: NodeStatusWriter


class PodNetworkAgent:
    """Keeps the node's network equal to the nodes of the API."""

    def __init__(
        self,
        informers: SharedInformerFactory,
        parts: PodNetworkParts,
        config: PodNetworkConfig,
        clock: Clock,
        telemetry: Telemetry,
    ) -> None:
        self._parts = parts
        self._config = config
        self._nodes: dict[str, ClusterNode] = {}
        self._informer: Informer = informers.for_resource(Node)
        self._writer = ConfigWriter(config.cni_folder) if config.cni_folder is not None else None
        self._masquerade = ""  # the script that was applied last
        self._unreachable: dict[str, str] = {}
        self.is_ready = False
        self.loop: Controller[ObjectKey] = Controller(
            NAME,
            self._reconcile,
            clock,
            workers=1,
            timeout=_TIMEOUT,
            queue=new_queue(NAME, clock, telemetry),
            telemetry=telemetry,
        )
        self.loop.add_event_handler(
            self._informer, ResourceEventHandlerFuncs(self._set_node, self._update_node, self._remove_node)
        )
        registry = telemetry.registry
        self._operations = registry.counter(
            "kubeloop_network_kernel_operations_total", "result", about="Changes of routes, neighbours and links."
        )
        about = "1 if the pod network of the node is complete."
        registry.gauge("kubeloop_network_ready", about=about).set_function(lambda: float(self.is_ready))
        about = "Nodes of the pod network, the own one included."
        registry.gauge("kubeloop_network_nodes", about=about).set_function(lambda: float(len(self._nodes)))

    # Events.

    def _set_node(self, node: Node) -> None:
        new = cluster_node_of(node)
        if self._nodes.get(new.name) != new or new.name == self._config.node_name:
            self._nodes[new.name] = new
            self.loop.queue.add(_KEY)

    def _update_node(self, _: Node, node: Node) -> None:
        self._set_node(node)

    def _remove_node(self, node: Node) -> None:
        if self._nodes.pop(node.metadata.name, None) is not None:
            self.loop.queue.add(_KEY)

    # Reconciliation.

    async def _reconcile(self, key: ObjectKey) -> Result:
        try:
            await self._sync()
        except Exception:
            self.is_ready = False
            raise
        return Result(requeue_after=_CHECK_SECONDS)

    async def _sync(self) -> None:
        config, parts = self._config, self._parts
        own, node = self._nodes.get(config.node_name), self._own_node()
        if own is None or node is None:
            raise PodNetworkError(f"node {config.node_name} is not registered")
        await parts.status.publish_addresses(node, ",".join(config.node_ips))
        if not own.pod_cidrs:
            raise PodNetworkError(f"node {config.node_name} has no pod CIDR: is --allocate-node-cidrs set?")
        link_mtu = await self._link_mtu(own)
        self._report_unreachable(own)
        enable_forwarding(config.proc, own.pod_cidrs)
        errors = await self._sync_kernel(own, link_mtu)
        await parts.backend.sync(own, self._machines())
        await self._sync_masquerade(own)
        self._write_config(own, link_mtu)
        if errors:
            raise PodNetworkError(f"{len(errors)} changes of the kernel failed: {errors[0]}")
        await parts.status.report_ready(node)
        if not self.is_ready:
            log.info("the pod network of node %s is ready", config.node_name)
        self.is_ready = True

    def _machines(self) -> list[ClusterNode]:
        """Return the nodes that are machines: nothing leads to simulated ones."""
        return [node for node in self._nodes.values() if not node.is_simulated]

    def _own_node(self) -> Node | None:
        found: Node | None = self._informer.get("", self._config.node_name)
        return found

    async def _link_mtu(self, own: ClusterNode) -> int:
        """Return the MTU of the link with the node's address."""
        if self._config.mtu:
            return self._config.mtu + self._parts.backend.overhead(own)
        for address in own.addresses:
            link = await self._parts.kernel.link_of(str(address))
            if link is not None:
                return link.mtu
        shown = ", ".join(map(str, own.addresses)) or "none"
        raise PodNetworkError(f"no link has an address of the node ({shown}): set --mtu, or --node-ip")

    def _report_unreachable(self, own: ClusterNode) -> None:
        found = unreachable_nodes(own, self._machines(), self._parts.backend.name)
        for name, reason in found.items():
            if self._unreachable.get(name) != reason:
                log.warning("pods of node %s are not reachable: %s", name, reason)
        self._unreachable = found

    async def _sync_kernel(self, own: ClusterNode, link_mtu: int) -> list[str]:
        """Apply the difference of the kernel's state; a change that fails does not prevent the others."""
        kernel = self._parts.kernel
        desired = self._parts.backend.kernel_state(own, self._machines(), link_mtu)
        desired = replace(desired, routes=desired.routes | simulated_pod_routes(self._nodes.values()))
        errors: list[str] = []
        for operation in difference(await kernel.read_state(), desired):
            try:
                await kernel.apply(operation)
                self._operations.with_labels("success").value += 1
            except NetlinkFailure as error:
                self._operations.with_labels("error").value += 1
                errors.append(f"{operation.verb} {operation.subject}: {error}")
                log.warning("unable to change the kernel's network: %s", errors[-1])
        return errors

    async def _sync_masquerade(self, own: ClusterNode) -> None:
        """Apply a changed table of masquerading, or restore a removed one."""
        config = self._config
        direct = self._parts.backend.reaches_nodes_directly
        internal = internal_networks(self._nodes.values(), config.internal_networks, nodes_too=direct)
        script = masquerade_script(own, internal) if config.masquerades else REMOVAL
        if script == self._masquerade and config.masquerades:
            try:
                await self._parts.nftables.run(CHECK)
            except NftablesError as error:
                log.warning("the table of masquerading is replaced after an error: %s", error)
                self._masquerade = ""
        if script != self._masquerade:
            await self._parts.nftables.run(script)
            self._masquerade = script

    def _write_config(self, own: ClusterNode, link_mtu: int) -> None:
        if self._writer is None:
            return
        mtu = max(link_mtu - self._parts.backend.overhead(own), _MIN_MTU)
        content = encode_config(build_config(self._config.cni, own.pod_cidrs, mtu))
        try:
            if self._writer.write(content):
                log.info("wrote the CNI configuration %s", self._writer.path)
        except OSError as error:
            raise PodNetworkError(f"unable to write {self._writer.path}: {error.strerror or error}") from None
