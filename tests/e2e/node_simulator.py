"""Simulated nodes as a program of their own, over HTTP, whose hearts beat every second: `node_simulator.py COUNT`."""

from __future__ import annotations

import asyncio
import sys

from kubeloop.cli.up.nodes import Nodes
from kubeloop.client import connect
from kubeloop.clock import SystemClock
from kubeloop.kubelet.agent import Fleet, FleetConfig
from kubeloop.kubelet.node_status import heartbeat
from kubeloop.runtime.informer.informer import Informers


async def main(count: int) -> None:
    heartbeat.RENEW_SECONDS = 1.0
    clock = SystemClock()
    async with connect(qps=0) as client:
        informers = Informers(client, clock)
        nodes = Nodes(Fleet(client, informers, clock, FleetConfig(count=count)), informers, clock)
        await nodes.start()
        sys.stdout.write(f"{count} nodes\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
