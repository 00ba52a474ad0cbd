"""Every node has a network for its pods that no other node has, where `--allocate-node-cidrs` asks for it.

flags ──▶ plan: ranges without what services have ──▶ ledger: who has what ◀── nodes
                                                          └▶ the next free one ──▶ spec.podCIDRs

Watches: nodes.
Owns: nothing.
Writes: `podCIDR` and `podCIDRs` of nodes that have none.
Wakes itself: never.
Differs from upstream: a node keeps what it was promised through failed and unanswered writes, so nothing leaks; a
    network that two nodes have by hand is free when both are gone; when a second family is exhausted, nothing of the
    first is lost; whoever waits for a network hears at once when one is free; nodes whose networks are none of ours
    are told of, and don't keep the program from starting.
"""

from __future__ import annotations

from typing import Any

from kubeloop.api.errors import ApiError, Conflict, NotFound
from kubeloop.api.generated.core_v1 import Node, ObjectReference
from kubeloop.api.requests import MERGE_PATCH
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.client.errors import ClientError
from kubeloop.controllers.app.context import Context
from kubeloop.controllers.app.disabled import Idle
from kubeloop.controllers.node_ipam.cidr_set import NoneLeft
from kubeloop.controllers.node_ipam.instruments import Instruments
from kubeloop.controllers.node_ipam.ledger import Ledger, Networks, Unusable
from kubeloop.controllers.node_ipam.plan import plan_of
from kubeloop.runtime.controller import Controller, TerminalError
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.event_handlers import Callbacks
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.manager import Loop
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "node-ipam-controller"
QUEUE = "cidrallocator_node"
COMPONENT = "cidrAllocator"
WORKERS = 30


def wire(context: Context) -> Loop:
    if not context.config.allocate_node_cidrs:
        return Idle(NAME)
    sets = plan_of(context.config).sets()
    nodes = context.informers.of(resource_of_class(Node))
    ledger = Ledger(sets, Instruments(context.telemetry.registry, sets))
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    books = Books(ledger, queue)
    # Before the first node is given anything, all that nodes have is in the books: handlers hear of every node first.
    nodes.add_handler(Callbacks(on_add=books.note, on_update=lambda _, new: books.note(new), on_delete=books.forget))
    allocator = Allocator(context.client, nodes, ledger, books, context.recorder.of_component(COMPONENT))
    controller = Controller(
        NAME, allocator.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.watches(nodes, own_key, networks_changed)
    return controller


class Books:
    """Keeps the ledger as the cache is, and wakes whoever waits when there is room."""

    def __init__(self, ledger: Ledger, queue: WorkQueue[ObjectKey]) -> None:
        self._ledger = ledger
        self._queue = queue
        self.waiting: set[ObjectKey] = set()

    def note(self, node: Node) -> None:
        if not node.spec.pod_cidrs:
            return
        try:
            made_room = self._ledger.note(node)
        except Unusable:  # its own turn tells of it
            made_room = self._ledger.forget(node)
        if made_room:
            self._wake()

    def forget(self, node: Node) -> None:
        self.waiting.discard(key_of(node))
        if self._ledger.forget(node):
            self._wake()

    def _wake(self) -> None:
        waiting, self.waiting = self.waiting, set()
        for key in sorted(waiting):
            self._queue.add(key)


class Allocator:
    def __init__(self, client: Client, nodes: Informer, ledger: Ledger, books: Books, recorder: EventRecorder) -> None:
        self._client = client
        self._nodes = nodes
        self._ledger = ledger
        self._books = books
        self._recorder = recorder

    async def reconcile(self, key: ObjectKey) -> None:
        node: Node | None = self._nodes.get(*key)
        if node is None or node.metadata.deletion_timestamp is not None:
            return
        if node.spec.pod_cidrs:
            self._check(node)
            return
        try:
            networks = self._ledger.promise(node)
        except NoneLeft:
            self._books.waiting.add(key)
            self._tell(node, "CIDRNotAvailable")
            raise
        await self._give(node, networks)

    def _check(self, node: Node) -> None:
        try:
            self._ledger.networks_of(node)
        except Unusable as error:
            raise TerminalError(str(error)) from None

    async def _give(self, node: Node, networks: Networks) -> None:
        try:
            await self._client.patch(Node, node.metadata.name, patch_of(node, networks), type=MERGE_PATCH)
        except (Conflict, NotFound):
            raise  # another of that name, or none: the cache will say
        except (ApiError, ClientError):
            self._tell(node, "CIDRAssignmentFailed")
            raise

    def _tell(self, node: Node, status: str) -> None:
        name = node.metadata.name
        about = ObjectReference(api_version="v1", kind="Node", name=name, uid=node.metadata.uid)
        self._recorder.event(about, "Normal", status, f"Node {name} status is now: {status}")


def patch_of(node: Node, networks: Networks) -> dict[str, Any]:
    texts = [str(one) for one in networks]
    return {"metadata": {"uid": node.metadata.uid}, "spec": {"podCIDR": texts[0], "podCIDRs": texts}}


def networks_changed(old: Node | None, new: Node | None) -> bool:
    return new is not None and (old is None or old.spec.pod_cidrs != new.spec.pod_cidrs)
