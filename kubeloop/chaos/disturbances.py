"""What is done to one process of a plane for a while, and undone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kubeloop.chaos.network import Network
from kubeloop.chaos.processes import Process


@asynccontextmanager
async def killed(process: Process) -> AsyncIterator[None]:
    await process.kill()
    yield
    await process.start()


@asynccontextmanager
async def held(process: Process) -> AsyncIterator[None]:
    process.hold()
    yield
    process.let_go()


@asynccontextmanager
async def cut_off(network: Network, process: Process) -> AsyncIterator[None]:
    network.cut_off(process.name)
    yield
    network.join(process.name)
