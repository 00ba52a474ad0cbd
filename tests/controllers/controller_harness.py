# SPDX-License-Identifier: Apache-2.0
"""Loops at work on a whole API server, in the test's own process and in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kubeloop.api.generated.core_v1 import Namespace
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.client import Client
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.controllers.app.context import ControllerContext, Wire
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.manager import Loop
from tests.unit.runtime.in_process_server import Server, play

ROOT_CA = "-----BEGIN CERTIFICATE-----"


class ControllerHarness:
    """A server and the loops that were started on it."""

    def __init__(self, server: Server) -> None:
        self.client: Client = server.client
        self.loop = server.loop
        self.clock = server.clock
        self.informers = SharedInformerFactory(self.client, self.clock)
        self.server = server
        self._running: list[asyncio.Task[None]] = []

    async def start(self, *wires: Wire, **config: Any) -> list[Loop]:
        recorder = EventRecorder(self.client, "test", self.clock)
        context = ControllerContext(
            self.client, self.informers, self.clock, recorder, ManagerConfig(**config), root_ca=ROOT_CA
        )  # fmt: skip
        loops = [wire(context) for wire in wires]
        self.informers.start()
        self._running = [asyncio.create_task(loop.run()) for loop in loops]
        await self.loop.settle()
        return loops

    async def settle(self) -> None:
        """Run until everything that is due now is done, including short retries."""
        await self.loop.advance(0.1)

    async def namespace(self, name: str) -> Namespace:
        made: Namespace = await self.client.create(Namespace(metadata=ObjectMeta(name=name)))
        return made


def bench(scenario: Callable[[ControllerHarness], Awaitable[None]]) -> None:
    async def main(server: Server) -> None:
        await scenario(ControllerHarness(server))

    play(main)
