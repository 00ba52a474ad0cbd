# SPDX-License-Identifier: Apache-2.0
"""Simulated nodes as a separate program over HTTP, with heartbeats every second: `node_simulator.py COUNT`."""

from __future__ import annotations

import asyncio
import sys

from kubeloop.cli.up.nodes import SimulatedNodes
from kubeloop.client import connect
from kubeloop.clock import SystemClock
from kubeloop.kubelet.agent import NodeAgent
from kubeloop.kubelet.agent_config import NodeAgentConfig
from kubeloop.kubelet.node_status import lease_controller
from kubeloop.runtime.informer.informer import SharedInformerFactory


async def main(count: int) -> None:
    lease_controller.LEASE_RENEW_SECONDS = 1.0
    clock = SystemClock()
    async with connect(qps=0) as client:
        informers = SharedInformerFactory(client, clock)
        agent = NodeAgent(client, informers, clock, NodeAgentConfig(count=count))
        nodes = SimulatedNodes(agent, informers, clock, None)
        await nodes.start()
        sys.stdout.write(f"{count} nodes\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
