# SPDX-License-Identifier: Apache-2.0
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
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "ttl-controller"
QUEUE = "ttlcontroller"  # upstream's queue name, as dashboards know it
WORKERS = 5  # as upstream
ANNOTATION = "node.alpha.kubernetes.io/ttl"


class TtlBoundary(NamedTuple):
    """TTL for a range of cluster sizes; ranges overlap, so that one node more or less does not change all nodes."""

    size_min: int
    size_max: int
    ttl_seconds: int


TTL_BOUNDARIES = (
    TtlBoundary(0, 100, 0),
    TtlBoundary(90, 500, 15),
    TtlBoundary(450, 1000, 30),
    TtlBoundary(900, 2000, 60),
    TtlBoundary(1800, 2**31 - 1, 300),
)


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    nodes = context.informers.for_resource(resource_of_class(Node))
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
        self._step = boundary_index(len(self._nodes), self._step)
        if node is None or annotated_ttl(node) == TTL_BOUNDARIES[self._step].ttl_seconds:
            return
        patch = {"metadata": {"annotations": {ANNOTATION: str(TTL_BOUNDARIES[self._step].ttl_seconds)}}}
        await self._client.patch(Node, key.name, patch)


def boundary_index(nodes: int, before: int) -> int:
    """Return the step for a number of nodes, as close as possible to the former one."""
    step = before
    while nodes > TTL_BOUNDARIES[step].size_max:
        step += 1
    while nodes < TTL_BOUNDARIES[step].size_min:
        step -= 1
    return step


def annotated_ttl(node: Node) -> int | None:
    """Return the annotated TTL; None if it is missing or invalid."""
    try:
        return int(node.metadata.annotations[ANNOTATION])
    except (KeyError, ValueError):
        return None


def _is_there(_: Any, new: Any) -> bool:
    return new is not None
