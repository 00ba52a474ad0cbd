# SPDX-License-Identifier: Apache-2.0
"""Keeps the Node, the Lease and the conditions of every node of an agent current, from one loop.

Watches: nodes.
Owns: the Node and Lease of each node that it serves.
Writes: creates Nodes that are missing when it starts; renews Leases every ten seconds; patches a node's conditions
when they or the volumes in use change, and every five minutes; corrects the addresses of a Node that already exists.
Wakes itself: when heartbeats are due.
Differs from upstream: with more than 2,500 nodes in one process leases are renewed less often, every 20 s at least.

The key of a node registers it, renews its lease and reports its status as far as that is due. Heartbeats of nodes in
which nothing has changed need none of that but the renewal: those that are due together are one key, and their leases
are renewed together. A node whose renewal fails, or whose status is due, is enqueued by its own key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from kubeloop.api.generated.core_v1 import Node
from kubeloop.clock import Clock
from kubeloop.kubelet.node_status.lease_controller import LeaseController
from kubeloop.kubelet.node_status.registrar import NodeRegistrar
from kubeloop.kubelet.node_status.served_nodes import ServedNodes
from kubeloop.kubelet.node_status.status_reporter import NodeStatusReporter
from kubeloop.runtime.controller import Result
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.workqueue import WorkQueue

DUE_NODES = ObjectKey("", "")  # key of all nodes whose heartbeat is due
# Heartbeats due within this time are made now: rounding could make a short wait repeat forever.
_TOLERANCE_SECONDS = 0.001


class HeartbeatSchedule:
    """Times of the next heartbeat of each node; the queue gets `DUE_NODES` when the first of them is due."""

    def __init__(self, queue: WorkQueue[ObjectKey], clock: Clock, max_interval_seconds: float) -> None:
        self._queue = queue
        self._clock = clock
        self._max_interval_seconds = max_interval_seconds
        # Invariant: `_heap` has the time of each node in `_times`, and may have outdated ones.
        self._times: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def set(self, name: str, seconds: float) -> None:
        """Set the seconds until a node's next heartbeat, at most the longest interval."""
        self.put(name, seconds)
        if self._heap[0] == (self._times[name], name):
            self._queue.add_after(DUE_NODES, min(seconds, self._max_interval_seconds))

    def put(self, name: str, seconds: float) -> None:
        """Set the seconds as `set` does, for a caller that enqueues `DUE_NODES` itself."""
        self._times[name] = time = self._clock.monotonic() + min(seconds, self._max_interval_seconds)
        heappush(self._heap, (time, name))

    def take_due(self) -> list[str]:
        """Remove and return the nodes whose heartbeat is due."""
        due, now, heap = [], self._clock.monotonic(), self._heap
        while heap and heap[0][0] - now < _TOLERANCE_SECONDS:
            time, name = heappop(heap)
            if self._times.get(name) == time:
                del self._times[name]
                due.append(name)
        return due

    def seconds_until_due(self) -> float | None:
        """Return the seconds until the next heartbeat; None if there is none."""
        return max(self._heap[0][0] - self._clock.monotonic(), 0.0) if self._heap else None

    def enqueue(self, name: str) -> None:
        """Enqueue a node."""
        self._queue.add(ObjectKey("", name))


class NodeHeartbeat:
    """Reconciles nodes; `handlers` are called for a node at each heartbeat."""

    def __init__(
        self,
        registrar: NodeRegistrar,
        leases: LeaseController,
        reporter: NodeStatusReporter,
        schedule: HeartbeatSchedule,
        handlers: Sequence[Callable[[Node], None]],
    ) -> None:
        self._served_nodes: ServedNodes = leases.served_nodes
        self._registrar = registrar
        self._leases = leases
        self._reporter = reporter
        self._schedule = schedule
        self._handlers = tuple(handlers)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Register a node if required, renew its lease and report its status; or make the heartbeats that are due."""
        if key == DUE_NODES:
            return await self._beat()
        name = key.name
        node = await self._register(name) if self._registrar.is_wanted(name) else self._served_nodes.get(name)
        if node is None or not self._served_nodes.serves(node):
            return None
        if self._served_nodes.state_of(node) != "":
            self._reporter.forget(name)
            self._leases.forget(name)
            return None
        await self._registrar.correct(node)
        if not self._leases.seconds_until_renewal(name):
            await self._leases.renew(node)
        await self._reporter.report(node)
        self._schedule.set(name, self._leases.seconds_until_renewal(name))
        self._handle(node)
        return None

    async def _beat(self) -> Result:
        """Make the heartbeats that are due; a node that is not reachable makes none."""
        due = self._schedule.take_due()
        nodes = {name: node for name in due if (node := self._served_nodes.get_reachable(name)) is not None}
        try:
            period = self._leases.period
            renewed = await self._leases.renew_together(self._leases.expired(nodes, period))
            for name in tuple(nodes):
                left = period if name in renewed else self._leases.seconds_until_renewal(name)
                self._finish_beat(nodes[name], left)
                del nodes[name]
        except BaseException:  # none may fall silent
            for name in nodes:
                self._schedule.enqueue(name)
            raise
        return Result(requeue_after=self._schedule.seconds_until_due())

    def _finish_beat(self, node: Node, seconds_until_renewal: float) -> None:
        """Schedule the next heartbeat, unless there is something left to do for this one."""
        if not seconds_until_renewal or self._reporter.is_due(node):
            self._schedule.enqueue(node.metadata.name)
            return
        self._schedule.put(node.metadata.name, seconds_until_renewal)
        self._handle(node)

    def _handle(self, node: Node) -> None:
        for handle in self._handlers:
            handle(node)

    async def _register(self, name: str) -> Node:
        """Create a node unless it exists; a new one has just reported its status."""
        node = self._served_nodes.get(name)
        if node is None:
            created = await self._registrar.create_node(name)
            if created is not None:
                self._reporter.set_reported(name)
                node = await self._registrar.remove_initial_taint(created)
            else:
                node = await self._registrar.get_existing(name)
        self._registrar.set_registered(node)
        return node
