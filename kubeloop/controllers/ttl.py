"""Every node is told, in an annotation, how long it may keep secrets and config maps: longer where nodes are many.

Watches: nodes.
Owns: nothing.
Writes: patches an annotation of nodes.
Wakes itself: never; when the number of nodes crosses a bound, the others follow at their next change, as upstream's do.
Differs from upstream: nothing that can be observed.
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
QUEUE = "ttlcontroller"  # upstream's, as dashboards know it
WORKERS = 5  # upstream's
ANNOTATION = "node.alpha.kubernetes.io/ttl"


class Step(NamedTuple):
    """For clusters of some size. Sizes overlap, so that one that changes by a node doesn't change all annotations."""

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
    nodes = context.informers.of(resource_of_class(Node))
    reconciler = Reconciler(context.client, nodes)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.watches(nodes, own_key, _is_there, resync=context.resync_period())
    return controller


class Reconciler:
    def __init__(self, client: Client, nodes: Informer) -> None:
        self._client = client
        self._nodes = nodes
        self._step = 0  # where the size of the cluster was last

    async def reconcile(self, key: ObjectKey) -> None:
        node: Node | None = self._nodes.get(*key)
        self._step = step_of(len(self._nodes), self._step)
        if node is None or seconds_told(node) == STEPS[self._step].seconds:
            return
        patch = {"metadata": {"annotations": {ANNOTATION: str(STEPS[self._step].seconds)}}}
        await self._client.patch(Node, key.name, patch)


def step_of(nodes: int, before: int) -> int:
    """The step for so many nodes, as near as possible to where it was."""
    step = before
    while nodes > STEPS[step].most:
        step += 1
    while nodes < STEPS[step].least:
        step -= 1
    return step


def seconds_told(node: Node) -> int | None:
    """What a node has been told; None if nothing that makes sense."""
    try:
        return int(node.metadata.annotations[ANNOTATION])
    except (KeyError, ValueError):
        return None


def _is_there(_: Any, new: Any) -> bool:
    return new is not None
