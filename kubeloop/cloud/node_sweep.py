"""A look at all nodes, again and again: what a cloud does not tell by itself has to be asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from kubeloop.api.generated.core_v1 import Node
from kubeloop.cloud.context import Context
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.queue.workqueue import WorkQueue

SWEEP = "nodes"  # the one key

log = logging.getLogger(__name__)

Sweep = Callable[[], Awaitable[None]]


def sweeping(name: str, context: Context, nodes: Informer, period: float, sweep: Sweep) -> Controller[str]:
    """A controller that sweeps once its caches are filled, and again whenever so many seconds have passed since."""

    async def reconcile(_: str) -> Result:
        try:
            await sweep()
        except (
            Exception
        ):  # the next sweep is the next try: a cloud that fails is not asked more often than one that works
            log.exception("%s could not look at the nodes", name)
        return Result(requeue_after=period)

    queue: WorkQueue[str] = WorkQueue(context.clock, name=name, registry=context.telemetry.registry)
    controller = Controller(name, reconcile, context.clock, workers=1, queue=queue, telemetry=context.telemetry)
    controller.reads(nodes)
    queue.add(SWEEP)
    return controller


async def each_contained(nodes: Sequence[Node], at_once: int, look: Callable[[Node], Awaitable[None]]) -> None:
    """Look at every node, some at a time; what fails for one is told and keeps nobody from the others."""
    turns = asyncio.Semaphore(at_once)

    async def contained(node: Node) -> None:
        async with turns:
            try:
                await look(node)
            except Exception as error:
                log.warning("node %s: %s", node.metadata.name, error or type(error).__name__)

    async with asyncio.TaskGroup() as group:
        for node in nodes:
            group.create_task(contained(node))
