# SPDX-License-Identifier: Apache-2.0
"""Checks all nodes: silent and recovered ones, states of zones, and the resulting taints and pod conditions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.core_v1 import Node, ObjectReference
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Time
from kubeloop.client import Client
from kubeloop.client.errors import ClientError
from kubeloop.clock import Clock
from kubeloop.controllers.node_lifecycle.health import (
    READY,
    ClockReading,
    NodeGracePeriods,
    NodeHealth,
    observe_health,
    silent_conditions,
    status_patch,
)
from kubeloop.controllers.node_lifecycle.metrics import NodeLifecycleMetrics
from kubeloop.controllers.node_lifecycle.node_writer import NodeWriter
from kubeloop.controllers.node_lifecycle.taints import (
    NOT_READY,
    UNREACHABLE,
    eviction_key,
    has_eviction_taint,
    has_opposite_taint,
    with_eviction_taint,
    without_eviction_taints,
)
from kubeloop.controllers.node_lifecycle.unready_pods import PodReadinessWriter
from kubeloop.controllers.node_lifecycle.zone_queues import ZoneTaintQueues
from kubeloop.controllers.node_lifecycle.zones import DisruptionTransition, ZoneTally, counts_for_disruption, zone_of
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import NODE

LEASE_NAMESPACE = "kube-node-lease"
CONCURRENCY = 8  # nodes that are written concurrently

log = logging.getLogger(__name__)


class StaleLeaseCacheError(Exception):
    """Raised if the cache of leases is older than the server, so that nodes only appear to be silent."""


@dataclass(frozen=True, slots=True)
class NodeMonitorCaches:
    """Informers that the monitor reads; pods are indexed by node."""

    nodes: Informer
    leases: Informer
    pods: Informer


@dataclass(frozen=True, slots=True)
class NodeMonitorWriters:
    """Writers and other tools that the monitor uses."""

    client: Client
    writer: NodeWriter
    pods: PodReadinessWriter
    recorder: EventRecorder
    clock: Clock
    instruments: NodeLifecycleMetrics


@dataclass(slots=True)
class ZoneTallies:
    """Results of one check so far."""

    now: ClockReading
    tallies: dict[str, ZoneTally] = field(default_factory=dict)

    def count(self, health: NodeHealth) -> None:
        """Count a node in the tally of its zone."""
        if counts_for_disruption(health.node):
            self.tallies.setdefault(zone_of(health.node), ZoneTally()).count(health.status == "True")


class NodeMonitor:
    """Checks the health of all nodes."""

    def __init__(
        self, views: NodeMonitorCaches, hands: NodeMonitorWriters, evictors: ZoneTaintQueues, patience: NodeGracePeriods
    ) -> None:
        self._views = views
        self._hands = hands
        self._evictors = evictors
        self._patience = patience
        self._clock = hands.clock
        self._instruments = hands.instruments
        self._health: dict[str, NodeHealth] = {}
        self._known: dict[str, str] = {}  # UIDs of reported nodes, by name
        self._unmarked: set[str] = set()  # silent nodes with pods that still count as ready
        self._awaited_version = 0  # resourceVersion that the cache of leases must reach before nodes are evaluated

    def status_of(self, node: str) -> str | None:
        """Return the Ready status of a node at the last check; None if it was not checked or has never reported."""
        health = self._health.get(node)
        return None if health is None or health.ready is None else health.ready.status

    def newest_node(self, node: str) -> Node | None:
        """Return the cached node, or a newer one that was written here."""
        cached: Node | None = self._views.nodes.get("", node)
        health = self._health.get(node)
        if cached is None or health is None:
            return cached
        ready = find_condition(cached.status.conditions, READY)
        return cached if ready is not None and ready.status == health.status else health.node

    async def monitor_node_health(self) -> None:
        """Check all nodes once."""
        began = self._clock.monotonic()
        nodes = self._views.nodes.list()
        await self._classify_nodes(nodes)
        if self._leases_are_behind():
            return
        findings = ZoneTallies(ClockReading(self._clock.now(), self._clock.monotonic()))
        busy = [node for node in nodes if not self._is_settled(node, findings)]
        limit = asyncio.Semaphore(CONCURRENCY)

        async def attend(node: Node) -> None:
            async with limit:
                await self._process_node(node, findings)

        await asyncio.gather(*map(attend, busy))
        if not self._leases_are_behind():
            await self._handle_disruption(findings, nodes)
        self._instruments.pass_seconds.observe(self._clock.monotonic() - began)

    def _leases_are_behind(self) -> bool:
        version = self._views.leases.version
        return version.isdigit() and int(version) < self._awaited_version

    # Added and deleted nodes

    async def _classify_nodes(self, nodes: Sequence[Node]) -> None:
        present = {node.metadata.name for node in nodes}
        for name in [name for name in self._known if name not in present]:
            self._tell(name, self._known.pop(name), "RemovingNode", f"Removing Node {name} from Controller")
            self._health.pop(name, None)
            self._unmarked.discard(name)
            self._evictors.remove(name)
        new = [node for node in nodes if node.metadata.name not in self._known]
        for node in new:
            name = node.metadata.name
            self._tell(name, node.metadata.uid, "RegisteredNode", f"Registered Node {name} in Controller")
            self._known[name] = node.metadata.uid
            self._evictors.of(zone_of(node))
        await self._make_reachable(new)

    def _tell(self, name: str, uid: str, reason: str, what: str) -> None:
        self._hands.recorder.event(_reference(name, uid), "Normal", reason, f"Node {name} event: {what}")

    async def _make_reachable(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self._evictors.remove(node.metadata.name)
            if has_eviction_taint(node, NOT_READY, UNREACHABLE):
                try:
                    await self._hands.writer.write(node, without_eviction_taints(node))
                except (ApiError, ClientError) as error:
                    log.info("failed to cancel the eviction of pods on node %s: %s", node.metadata.name, error)

    # Health

    def _is_settled(self, node: Node, findings: ZoneTallies) -> bool:
        """Observe one node; returns True if nothing has to be written, as for most nodes most of the time."""
        name = node.metadata.name
        health = self._observe(node, findings.now)
        if name in self._unmarked or health.is_overdue(self._patience, findings.now):
            return False
        if health.status == "True":
            settled = not has_eviction_taint(node, NOT_READY, UNREACHABLE) and not self._evictors.contains(node)
        else:
            settled = health.ready is None
        if settled:
            findings.count(health)
        return settled

    def _observe(self, node: Node, now: ClockReading) -> NodeHealth:
        lease: Lease | None = self._views.leases.get(LEASE_NAMESPACE, node.metadata.name)
        renewed = (lease.spec.renew_time or "") if lease is not None and lease.spec is not None else ""
        health = observe_health(self._health.get(node.metadata.name), node, renewed, now)
        self._health[node.metadata.name] = health
        return health

    async def _process_node(self, node: Node, findings: ZoneTallies) -> None:
        began, name = self._clock.monotonic(), node.metadata.name
        try:
            before, health = await self._try_update_node_health(node, findings.now)
        except (ApiError, ClientError, StaleLeaseCacheError) as error:
            log.info("failed to update the health of node %s, its pods are not evicted: %s", name, error)
            return
        findings.count(health)
        if health.ready is not None:
            try:
                await self._process_taint_eviction(health)
            except (ApiError, ClientError) as error:
                log.info("failed to update the taints of node %s: %s", name, error)
            await self._settle_pods(before, health)
        self._instruments.node_seconds.observe(self._clock.monotonic() - began)

    async def _try_update_node_health(self, node: Node, now: ClockReading) -> tuple[str, NodeHealth]:
        """Return the reported readiness of a node, and its health after its conditions were written."""
        health = self._observe(node, now)
        before = health.status if health.ready is not None else ""
        if not health.is_overdue(self._patience, now):
            return before, health
        conditions = silent_conditions(node, now.time)
        if READY not in conditions:
            return before, health
        await self._check_lease(node.metadata.name)
        return before, await self._declare_silent(health, status_patch(node, conditions))

    async def _declare_silent(self, health: NodeHealth, patch: dict[str, object]) -> NodeHealth:
        name = health.node.metadata.name
        written: Node = await self._hands.client.patch(
            Node, name, patch, type=STRATEGIC_PATCH, subresource="status"
        )  # fmt: skip
        ready = find_condition(written.status.conditions, READY)
        self._health[name] = replace(health, node=written, ready=ready)
        return self._health[name]

    async def _check_lease(self, name: str) -> None:
        """Compare the lease with the server before a node is declared silent; raises LeasesBehind."""
        try:
            live = await self._hands.client.get(Lease, name, LEASE_NAMESPACE)
        except NotFound:
            return
        cached = self._views.leases.get(LEASE_NAMESPACE, name)
        version = live.metadata.resource_version
        if cached is None or cached.metadata.resource_version != version:
            if version.isdigit():
                self._awaited_version = max(self._awaited_version, int(version))
            raise StaleLeaseCacheError(f"the lease has resourceVersion {version}")

    # Consequences

    async def _process_taint_eviction(self, health: NodeHealth) -> None:
        node, status = health.node, health.status
        if not (key := eviction_key(status)):
            await self._make_reachable((node,))
        elif has_opposite_taint(node, key):  # its pods are already being evicted: only the reason differs
            moment = Time(format_time(self._clock.now()))
            await self._hands.writer.write(node, with_eviction_taint(node, moment))
        else:
            self._evictors.add(node, status)

    async def _settle_pods(self, before: str, health: NodeHealth) -> None:
        name, was_ready = health.node.metadata.name, before == "True"
        if health.status == "True":
            self._unmarked.discard(name)
            return
        if was_ready:
            told = f"Node {name} status is now: NodeNotReady"
            about = _reference(name, health.node.metadata.uid)
            self._hands.recorder.event(about, "Normal", "NodeNotReady", told)
        if was_ready or name in self._unmarked:
            if await self._hands.pods.mark_pods_not_ready(self._views.pods.by_index(NODE, name)):
                self._unmarked.discard(name)
            else:
                self._unmarked.add(name)

    async def _handle_disruption(self, findings: ZoneTallies, nodes: Sequence[Node]) -> None:
        turn = self._evictors.handle_disruption(findings.tallies)
        if turn is DisruptionTransition.ALL_LOST:
            log.info("no node is ready: evictions are disabled")
        if self._evictors.is_fully_disrupted:
            await self._make_reachable(nodes)
        elif turn is DisruptionTransition.SOME_BACK:
            log.info("a node is ready again: the grace period of all nodes restarts")
            now = self._clock.monotonic()
            for name, health in self._health.items():
                self._health[name] = replace(health, probe_timestamp=now)


def _reference(name: str, uid: str) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Node", name=name, uid=uid)
