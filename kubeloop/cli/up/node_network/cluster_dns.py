# SPDX-License-Identifier: Apache-2.0
"""DNS server of the cluster on its real node, and the Service kube-dns that leads to it."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack
from typing import Final

from kubeloop.api.generated.core_v1 import Node
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.dns.run import DnsProgram
from kubeloop.client import Client
from kubeloop.client.errors import ConfigError
from kubeloop.clock import Clock
from kubeloop.dns.forward.addresses import UpstreamError
from kubeloop.dns.kube_dns_controller import CONTROLLER, wire_kube_dns
from kubeloop.dns.kube_dns_service import KubeDnsEndpoints, KubeDnsError, kube_dns_objects
from kubeloop.dns.server.client_filter import ClientFilter
from kubeloop.network.nodes import cluster_node_of
from kubeloop.runtime.app import App, LoopContext
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import Informer, SharedInformerFactory
from kubeloop.runtime.manager import LoopManager

_DRAIN_SECONDS: Final = 0.5


class NodeDns:
    """Running DNS server; created by `start_dns`."""

    def __init__(self, program: DnsProgram, parts: AsyncExitStack) -> None:
        self._program = program
        self._parts = parts

    @property
    def port(self) -> int:
        """Port of the server at the node's address."""
        return self._program.addresses[0][1]

    @property
    def problem(self) -> str:
        """Reason why the server cannot answer; empty if it can."""
        return self._program.problem

    async def close(self) -> None:
        """Stop the server. Its Service stays: the next start serves it again."""
        await self._parts.aclose()


async def start_dns(options: argparse.Namespace, service_range: str, client: Client, clock: Clock) -> NodeDns:
    """Start the server and the controller of its Service. Raises `StartupError`."""
    async with AsyncExitStack() as parts:
        try:
            program = DnsProgram(options, announce=lambda _: None)
            parts.push_async_callback(program.close, 0)
            endpoints = KubeDnsEndpoints(
                tuple(host for host, _ in program.addresses), program.addresses[0][1], options.metrics_port
            )
            service, slices = kube_dns_objects(service_range.partition(",")[0], endpoints)
        except (ConfigError, UpstreamError, KubeDnsError) as error:
            raise StartupError(f"the DNS server of the cluster cannot start: {error}") from None
        await program.start()
        informers = SharedInformerFactory(client, clock)
        _follow_nodes(informers.for_resource(Node), program.clients)
        controller = wire_kube_dns(LoopContext(client, informers, clock), service, slices)
        app = App(LoopManager([controller], clock, name=CONTROLLER), informers)
        task = asyncio.create_task(app.run(lambda: _DRAIN_SECONDS), name=CONTROLLER)

        async def end() -> None:
            task.cancel()
            await asyncio.wait((task,))

        parts.push_async_callback(end)
        return NodeDns(program, parts.pop_all())


def _follow_nodes(nodes: Informer, clients: ClientFilter) -> None:
    """Let the server answer all nodes: packets of pods may have their node's address."""

    def set_addresses(*_: object) -> None:
        machines = (node for node in map(cluster_node_of, nodes.list()) if not node.is_simulated)
        clients.set_addresses(str(address) for node in machines for address in node.addresses)

    nodes.add_handler(ResourceEventHandlerFuncs(set_addresses, set_addresses, set_addresses))
