# SPDX-License-Identifier: Apache-2.0
"""Runs user-defined controllers as a standalone program, against the cluster of the kubeconfig or of the pod.

if __name__ == "__main__":
    run(wire, lease="default/my-controller")
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable
from contextlib import AsyncExitStack

from kubeloop.client import Client, load_config
from kubeloop.client.config.server_config import ServerConfig
from kubeloop.client.http.rate_limit import DEFAULT_BURST, DEFAULT_QPS, TokenBucket
from kubeloop.client.http.transport import HttpTransport
from kubeloop.client.transport import ClientTransport
from kubeloop.clock import Clock, SystemClock
from kubeloop.controllers.app.context import ControllerContext, Wire
from kubeloop.controllers.app.ensure_crds import wire_with_kinds
from kubeloop.runtime.app import App
from kubeloop.runtime.causes.transport import CauseTransport
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.leaderelection.fence import FencedTransport
from kubeloop.runtime.leaderelection.leader_elector import LeaderElector, new_identity
from kubeloop.runtime.manager import LoopManager


def run(*wires: Wire, lease: str = "", component: str = "kubeloop") -> None:
    """Run controllers until Ctrl-C or SIGTERM, then let them finish the work in progress.

    With a lease (`namespace/name`), one of several such programs is active while the others wait.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(_until_signal(run_standalone(wires, load_config(), lease, component)))


async def run_standalone(wires: tuple[Wire, ...], server: ServerConfig, lease: str, component: str) -> None:
    """Run controllers within an event loop that already runs, until cancelled."""
    clock = SystemClock()
    async with AsyncExitStack() as parts:
        transport = HttpTransport(server, clock)
        parts.push_async_callback(transport.close)
        client = _client(transport, component, clock)
        if not lease:
            await _keep(wires, client, clock, component)
            return
        namespace, _, name = lease.partition("/")
        elector = LeaderElector(client, namespace, name, new_identity(os.uname().nodename, clock), clock)
        fenced = _client(FencedTransport(transport, elector.fence), component, clock)
        await elector.run(lambda: _keep(wires, fenced, clock, component))


async def _keep(wires: tuple[Wire, ...], client: Client, clock: Clock, component: str) -> None:
    informers, recorder = SharedInformerFactory(client, clock), EventRecorder(client, component, clock)
    context = ControllerContext(client, informers, clock, recorder)
    manager = LoopManager(
        [wire_with_kinds(wire, context) for wire in wires], clock, name=component, registry=context.telemetry.registry
    )
    await App(manager, informers, recorder).run()


def _client(transport: ClientTransport, component: str, clock: Clock) -> Client:
    limiter = TokenBucket(DEFAULT_QPS, DEFAULT_BURST, clock)
    return Client(CauseTransport(transport), user_agent=component, limiter=limiter)


async def _until_signal(work: Awaitable[None]) -> None:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    await asyncio.wait((task,))
    if not task.cancelled():
        task.result()
