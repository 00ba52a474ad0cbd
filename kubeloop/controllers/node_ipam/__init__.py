# SPDX-License-Identifier: Apache-2.0
"""Assigns each node a unique pod CIDR if `--allocate-node-cidrs` is set.

flags ──▶ plan: cluster CIDRs without Service CIDRs ──▶ ledger: allocations ◀── nodes
                                                       └▶ next free CIDR ──▶ spec.podCIDRs

Watches: nodes.
Owns: nothing.
Writes: `podCIDR` and `podCIDRs` of nodes that have none.
Wakes itself: never.
Differs from upstream: a node keeps its reserved CIDRs across failed writes and lost responses, so that nothing leaks;
  a CIDR that two nodes were given manually is free when both are gone; when a second family is exhausted, nothing of
  the first is lost; nodes that wait for a CIDR are enqueued as soon as one is free; nodes with CIDRs out of range are
  reported, and don't prevent the program from starting.
"""

from __future__ import annotations

from typing import Any

from kubeloop.api.errors import ApiError, Conflict, NotFound
from kubeloop.api.generated.core_v1 import Node, ObjectReference
from kubeloop.api.requests import MERGE_PATCH
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.client.errors import ClientError
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.app.disabled_controller import DisabledController
from kubeloop.controllers.node_ipam.cidr_allocations import InvalidNodeCidrs, Networks, NodeCidrAllocations
from kubeloop.controllers.node_ipam.cidr_config import read_cidr_config
from kubeloop.controllers.node_ipam.cidr_set import NoCidrsRemaining
from kubeloop.controllers.node_ipam.metrics import NodeIpamMetrics
from kubeloop.runtime.controller import Controller, TerminalError
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.manager import Loop
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "node-ipam-controller"
QUEUE = "cidrallocator_node"
COMPONENT = "cidrAllocator"
WORKERS = 30


def wire(context: ControllerContext) -> Loop:
    """Build the controller, or a disabled one without --allocate-node-cidrs."""
    if not context.config.allocate_node_cidrs:
        return DisabledController(NAME)
    sets = read_cidr_config(context.config).sets()
    nodes = context.informers.for_resource(resource_of_class(Node))
    ledger = NodeCidrAllocations(sets, NodeIpamMetrics(context.telemetry.registry, sets))
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    books = NodeCidrHandler(ledger, queue)
    # All existing CIDRs are recorded before the first allocation, since handlers receive every node first.
    nodes.add_handler(
        ResourceEventHandlerFuncs(
            on_add=books.occupy, on_update=lambda _, new: books.occupy(new), on_delete=books.release
        )
    )
    allocator = NodeCidrAllocator(context.client, nodes, ledger, books, context.recorder.with_component(COMPONENT))
    controller = Controller(
        NAME, allocator.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.watches(nodes, own_key, pod_cidrs_changed)
    return controller


class NodeCidrHandler:
    """Updates the ledger from node events, and enqueues waiting nodes when CIDRs become free."""

    def __init__(self, ledger: NodeCidrAllocations, queue: WorkQueue[ObjectKey]) -> None:
        self._ledger = ledger
        self._queue = queue
        self.waiting: set[ObjectKey] = set()

    def occupy(self, node: Node) -> None:
        """Record the CIDRs of a node."""
        if not node.spec.pod_cidrs:
            return
        try:
            made_room = self._ledger.occupy(node)
        except InvalidNodeCidrs:  # the node's own sync reports it
            made_room = self._ledger.release(node)
        if made_room:
            self._wake()

    def release(self, node: Node) -> None:
        """Release the CIDRs of a deleted node."""
        self.waiting.discard(key_of(node))
        if self._ledger.release(node):
            self._wake()

    def _wake(self) -> None:
        waiting, self.waiting = self.waiting, set()
        for key in sorted(waiting):
            self._queue.add(key)


class NodeCidrAllocator:
    """Assigns pod CIDRs to nodes by key."""

    def __init__(
        self,
        client: Client,
        nodes: Informer,
        ledger: NodeCidrAllocations,
        books: NodeCidrHandler,
        recorder: EventRecorder,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._ledger = ledger
        self._books = books
        self._recorder = recorder

    async def reconcile(self, key: ObjectKey) -> None:
        """Reserve CIDRs for a node without any, and write them; check those of others."""
        node: Node | None = self._nodes.get(*key)
        if node is None or node.metadata.deletion_timestamp is not None:
            return
        if node.spec.pod_cidrs:
            self._check(node)
            return
        try:
            networks = self._ledger.reserve(node)
        except NoCidrsRemaining:
            self._books.waiting.add(key)
            self._tell(node, "CIDRNotAvailable")
            raise
        await self._give(node, networks)

    def _check(self, node: Node) -> None:
        try:
            self._ledger.networks_of(node)
        except InvalidNodeCidrs as error:
            raise TerminalError(str(error)) from None

    async def _give(self, node: Node, networks: Networks) -> None:
        try:
            await self._client.patch(Node, node.metadata.name, pod_cidrs_patch(node, networks), type=MERGE_PATCH)
        except (Conflict, NotFound):
            raise  # the node was replaced or deleted: the cache will show it
        except (ApiError, ClientError):
            self._tell(node, "CIDRAssignmentFailed")
            raise

    def _tell(self, node: Node, status: str) -> None:
        name = node.metadata.name
        about = ObjectReference(api_version="v1", kind="Node", name=name, uid=node.metadata.uid)
        self._recorder.event(about, "Normal", status, f"Node {name} status is now: {status}")


def pod_cidrs_patch(node: Node, networks: Networks) -> dict[str, Any]:
    """Build the patch of a node's pod CIDRs."""
    texts = [str(one) for one in networks]
    return {"metadata": {"uid": node.metadata.uid}, "spec": {"podCIDR": texts[0], "podCIDRs": texts}}


def pod_cidrs_changed(old: Node | None, new: Node | None) -> bool:
    """Return True if a node is new or its pod CIDRs have changed."""
    return new is not None and (old is None or old.spec.pod_cidrs != new.spec.pod_cidrs)
