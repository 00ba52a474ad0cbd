# SPDX-License-Identifier: Apache-2.0
"""Simulated nodes of `kubeloop up`, in the server's process."""

from __future__ import annotations

import asyncio
from ipaddress import ip_network

from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import AUTHENTICATED, User
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.flags.values import flag_values
from kubeloop.cli.kubelet.server import KubeletPlan, KubeletPorts, open_kubelet_ports
from kubeloop.cli.kubelet.zpages import kubelet_zpages
from kubeloop.cli.pki.files import Pki
from kubeloop.cli.up.flags import NodeFlags
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.kubelet.agent import COMPONENT, NodeAgent
from kubeloop.kubelet.agent_config import NodeAgentConfig, kubelet_ports
from kubeloop.kubelet.simulated.stages import StageError, read_rules
from kubeloop.runtime.causes.transport import CauseTransport
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.manager import LoopManager

# As with controllers: separate accounts would not protect anything within one process.
_USER = User("system:node-simulator", ("system:masters", "system:nodes", AUTHENTICATED))
_REGISTER_SECONDS = 60.0
_DRAIN_SECONDS = 0.5  # what is left undone is done after the next start


class SimulatedNodes:
    """Running nodes; created by `start_nodes`."""

    def __init__(
        self, fleet: NodeAgent, informers: SharedInformerFactory, clock: Clock, ports: KubeletPorts | None
    ) -> None:
        self.fleet = fleet
        self._ports = ports  # None: the nodes have no ports
        self._informers = informers
        self.manager = LoopManager(fleet.loops, clock, name=COMPONENT)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start the nodes and wait until they are registered."""
        self._informers.start()
        self._tasks = [
            asyncio.create_task(self.fleet.recorder.run(), name="events of nodes"),
            asyncio.create_task(self.manager.run(lambda: _DRAIN_SECONDS), name="nodes"),
        ]
        async with asyncio.timeout(_REGISTER_SECONDS):
            await self.fleet.wait_registered()

    async def close(self) -> None:
        """Stop the nodes; the next start finds pods as they were."""
        if self._ports is not None:
            await self._ports.close()
        for task in reversed(self._tasks):
            task.cancel()
        await asyncio.wait(self._tasks)
        await self._informers.stop()


def fleet_config(plan: NodeFlags, clock: Clock, host: str = "", cluster_cidrs: str = "") -> NodeAgentConfig:
    """Return the configuration of the nodes; raises CannotStart for an unusable stage file.

    The host is where nodes with their own ports listen. From the cluster CIDRs nodes get their pod CIDRs.
    """
    try:
        rules = tuple(read_rules(plan.stages)) if plan.stages is not None else ()
    except StageError as error:
        raise StartupError(str(error)) from None
    return NodeAgentConfig(
        count=plan.count,
        event_level=plan.events,
        rules=rules,
        static_pods=plan.static_pods,
        host=host,
        first_port=plan.kubelet_port,
        cluster_cidrs=tuple(ip_network(one) for one in cluster_cidrs.split(",") if one),
        pages=kubelet_zpages(flag_values(_flags_of(plan)), clock),
    )


def _flags_of(plan: NodeFlags) -> dict[str, object]:
    """Return the flags of `kubeloop up` that concern its nodes, by their names."""
    return {
        "nodes": plan.count,
        "node_events": plan.events,
        "node_stages": plan.stages,
        "node_static_pods": plan.static_pods,
        "kubelet_port": plan.kubelet_port,
    }


async def start_nodes(server: ApiServer, clock: Clock, config: NodeAgentConfig, pki: Pki) -> SimulatedNodes:
    """Start the nodes; returns when they are registered, and listen if they have ports."""
    client = Client(CauseTransport(InProcessTransport(server, _USER)), user_agent=COMPONENT)
    informers = SharedInformerFactory(client, clock)
    fleet = NodeAgent(client, informers, clock, config)
    ports: KubeletPorts | None = None
    if config.first_port:
        plan = KubeletPlan(config.host, kubelet_ports(config), pki)
        ports = await open_kubelet_ports(plan, fleet.dialer, fleet.get_pod, client, clock)
    nodes = SimulatedNodes(fleet, informers, clock, ports)
    await nodes.start()
    server.nodes.add_local(fleet.dialer)
    server.serve_virtual_group(fleet.metrics)
    return nodes
