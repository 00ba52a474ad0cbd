# SPDX-License-Identifier: Apache-2.0
"""Wires the loops of a node: the pod network, network policies, reports of the CNI plugin, leaked addresses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kubeloop.api.generated.core_v1 import Node
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.network.agent import PodNetworkAgent, PodNetworkConfig, PodNetworkParts
from kubeloop.network.backends import NetworkBackend
from kubeloop.network.cni.address_gc import LeakedAddressCollector, ListSandboxes
from kubeloop.network.cni.report_server import ReportServer, install_plugin
from kubeloop.network.netlink.kernel import NetworkKernel
from kubeloop.network.node_status import NodeStatusWriter
from kubeloop.network.policy.controller import NetworkPolicyController
from kubeloop.network.policy.tables import REMOVAL
from kubeloop.nftables import Nftables, NftablesError
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.manager import LoopManager

COMPONENT: Final = "kubeloop-network"
_DRAIN_SECONDS: Final = 1.0
_COLLECT_SECONDS: Final = 300.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Settings of the program on a node."""

    pod_network: PodNetworkConfig
    has_policies: bool = True
    plugin_folder: Path | None = None  # where the CNI plugin is installed; None if addresses are not reported
    list_sandboxes: ListSandboxes | None = field(default=None)  # None: leaked addresses are not collected


@dataclass(frozen=True, slots=True)
class NodeInterfaces:
    """Interfaces to the node's kernel."""

    backend: NetworkBackend
    kernel: NetworkKernel
    nftables: Nftables


class NetworkApp:
    """Loops of the node; they run until cancelled."""

    def __init__(
        self, client: Client, clock: Clock, telemetry: Telemetry, interfaces: NodeInterfaces, config: NetworkConfig
    ) -> None:
        self._config = config
        self._clock = clock
        self._nftables = interfaces.nftables
        self._informers = SharedInformerFactory(client, clock)
        self._informers.for_resource(Node)
        parts = PodNetworkParts(
            interfaces.backend, interfaces.kernel, interfaces.nftables, NodeStatusWriter(client, clock)
        )
        node_name = config.pod_network.node_name
        self.agent = PodNetworkAgent(self._informers, parts, config.pod_network, clock, telemetry)
        self._policies = (
            NetworkPolicyController(self._informers, interfaces.nftables, node_name, clock, telemetry)
            if config.has_policies
            else None
        )
        loops = [self.agent.loop, *([self._policies.loop] if self._policies is not None else [])]
        self.manager = LoopManager(loops, clock, name=COMPONENT, registry=telemetry.registry)
        about = "Number of leaked addresses of host-local that were freed."
        self._collected = telemetry.registry.counter("kubeloop_network_leaked_addresses_total", about=about)

    @property
    def is_ready(self) -> bool:
        """True if the pod network is complete and the policies are in force."""
        return self.agent.is_ready and (self._policies is None or self._policies.is_loaded)

    @property
    def problem(self) -> str:
        """Reason why a loop is unhealthy; empty if all are healthy."""
        return next((reason for name in self.manager.names if (reason := self.manager.health(name).reason)), "")

    async def run(self) -> None:
        """Run the loops until cancelled. Raises OSError if the socket for reports cannot be opened."""
        server = self._report_server()
        if server is not None:
            await server.start()
        if self._policies is None:
            await self._remove_policies()
        self._informers.start()
        try:
            async with asyncio.TaskGroup() as group:
                for work in self._tasks():
                    group.create_task(work)
        finally:
            await self._informers.stop()
            if server is not None:
                await server.close()

    def _tasks(self) -> list[Coroutine[Any, Any, None]]:
        tasks: list[Coroutine[Any, Any, None]] = [self.manager.run(lambda: _DRAIN_SECONDS)]
        if self._config.list_sandboxes is not None:
            tasks.append(self._collect_addresses(self._config.list_sandboxes))
        return tasks

    async def _remove_policies(self) -> None:
        """Remove the table of an earlier process that enforced policies."""
        try:
            await self._nftables.run(REMOVAL)
        except NftablesError as error:
            log.warning("unable to remove the table of network policies: %s", error)

    def _report_server(self) -> ReportServer | None:
        socket, folder = self._config.pod_network.cni.report_socket, self._config.plugin_folder
        if self._policies is None or folder is None or not socket:
            return None
        install_plugin(folder)
        return ReportServer(Path(socket), self._policies)

    async def _collect_addresses(self, list_sandboxes: ListSandboxes) -> None:
        cni = self._config.pod_network.cni
        collector = LeakedAddressCollector(Path(cni.data_dir) / cni.network_name, list_sandboxes, self._clock)
        while True:
            try:
                for address in await collector.collect():
                    log.warning("freed the address %s, whose sandbox no longer exists", address)
                    self._collected.with_labels().value += 1
            except Exception as error:  # the runtime may be away; the next round tries again
                log.warning("unable to collect leaked addresses: %s", error)
            await asyncio.sleep(_COLLECT_SECONDS)
