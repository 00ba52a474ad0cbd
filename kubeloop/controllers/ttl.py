"""Annotates nodes with the TTL of cached secrets and config maps, which grows with the number of nodes.

Watches: nodes.
Owns: nothing.
Writes: patches an annotation of nodes.
Wakes itself: never; when the number of nodes crosses a limit, the others follow at their next change, as in upstream.
Differs from upstream: nothing observable.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kubeloop.api.generated.core_v1 import Node
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import Context
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "ttl-controller"
QUEUE = "ttlcontroller"  # upstream's queue name, as dashboards know it
WORKERS = 5  # as upstream
ANNOTATION = "node.alpha.kubernetes.io/ttl"


class Step(NamedTuple):
    """TTL for a range of cluster sizes; ranges overlap, so that one node more or less does not change all nodes."""

    least: int
    most: int
    seconds: int


STEPS = (
    Step(0, 100, 0),
    Step(90, 500, 15),
    Step(450, 1000, 30),
    Step(900, 2000, 60),
    Step(1800, 2**31 - 1, 300),
)


def wire(context: Context) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    nodes = context.informers.of(resource_of_class(Node))
    reconciler = Reconciler(context.client, nodes)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.watches(nodes, own_key, _is_there, resync=context.resync_period())
    return controller


class Reconciler:
    """Annotates nodes by key."""

    def __init__(self, client: Client, nodes: Informer) -> None:
        self._client = client
        self._nodes = nodes
        self._step = 0  # last step of the cluster's size

    async def reconcile(self, key: ObjectKey) -> None:
        """Update the annotation of one node."""
        node: Node | None = self._nodes.get(*key)
        self._step = step_of(len(self._nodes), self._step)
        if node is None or seconds_told(node) == STEPS[self._step].seconds:
            return
        patch = {"metadata": {"annotations": {ANNOTATION: str(STEPS[self._step].seconds)}}}
        await self._client.patch(Node, key.name, patch)


def step_of(nodes: int, before: int) -> int:
    """Return the step for a number of nodes, as close as possible to the former one."""
    step = before
    while nodes > STEPS[step].most:
        step += 1
    while nodes < STEPS[step].least:
        step -= 1
    return step


def seconds_told(node: Node) -> int | None:
    """Return the annotated TTL; None if it is missing or invalid."""
    try:
        return int(node.metadata.annotations[ANNOTATION])
    except (KeyError, ValueError):
        return None


def _is_there(_: Any, new: Any) -> bool:
    return new is not None
