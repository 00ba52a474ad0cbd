# SPDX-License-Identifier: Apache-2.0
"""Periodic check of all nodes, for clouds that send no events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from kubeloop.api.generated.core_v1 import Node
from kubeloop.cloud.context import CloudControllerContext
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.queue.workqueue import WorkQueue

SWEEP = "nodes"  # the only key

log = logging.getLogger(__name__)

Sweep = Callable[[], Awaitable[None]]


def periodic_controller(
    name: str, context: CloudControllerContext, nodes: Informer, period: float, sweep: Sweep
) -> Controller[str]:
    """Build a controller that runs `sweep` once its caches are synced, and again after each period."""

    async def reconcile(_: str) -> Result:
        try:
            await sweep()
        except Exception:  # the next sweep is the retry: a failing cloud is not asked more often than a working one
            log.exception("%s failed to process the nodes", name)
        return Result(requeue_after=period)

    queue: WorkQueue[str] = WorkQueue(context.clock, name=name, registry=context.telemetry.registry)
    controller = Controller(name, reconcile, context.clock, workers=1, queue=queue, telemetry=context.telemetry)
    controller.require_synced(nodes)
    queue.add(SWEEP)
    return controller


async def for_each_node(nodes: Sequence[Node], at_once: int, look: Callable[[Node], Awaitable[None]]) -> None:
    """Call `look` for every node with limited concurrency; a failure is logged and does not affect others."""
    turns = asyncio.Semaphore(at_once)

    async def contained(node: Node) -> None:
        async with turns:
            try:
                await look(node)
            except Exception as error:
                log.warning("node %s: %s", node.metadata.name, str(error) or type(error).__name__)

    async with asyncio.TaskGroup() as group:
        for node in nodes:
            group.create_task(contained(node))
