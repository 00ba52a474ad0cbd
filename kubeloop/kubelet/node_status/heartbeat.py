"""Keeps the Node, the Lease and the conditions of every node of an agent current, from one loop.

Watches: nodes.
Owns: the Node and Lease of each node that it serves.
Writes: creates Nodes that are missing when it starts; renews Leases every ten seconds; patches a node's conditions
when they or the volumes in use change, and every five minutes; corrects the addresses of a Node that already exists.
Wakes itself: when a lease is due.
Differs from upstream: with more than 2,500 nodes in one process leases are renewed less often, every 20 s at least.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from kubeloop.api import codec
from kubeloop.api.errors import AlreadyExists, NotFound
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.core_v1 import Node, NodeCondition
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.kubelet.node_status.lease_patch import LeaseRenewalPatch
from kubeloop.kubelet.node_status.registration import (
    LEASE_NAMESPACE,
    are_conditions_current,
    correction_patches,
    new_lease,
    node_conditions,
)
from kubeloop.kubelet.node_status.served_nodes import ServedNodes
from kubeloop.kubelet.volumes.reported_volumes import ReportedVolumes
from kubeloop.runtime.controller import Result
from kubeloop.runtime.objects.keys import ObjectKey

LEASE_RENEW_SECONDS = 10.0
MAX_LEASE_RENEW_SECONDS = 20.0
# Renewals per second up to which the period is not extended.
_RENEWALS_PER_SECOND = 250.0
# Renewals due within this time are done now, as rounding could make a short wait repeat forever.
_RENEW_TOLERANCE_SECONDS = 0.001
NODE_STATUS_REPORT_SECONDS = 300.0
NOT_READY_TAINT = "node.kubernetes.io/not-ready"

log = logging.getLogger(__name__)


class NodeHeartbeat:
    """Reconciles nodes; `wanted` are the nodes to be created if they do not exist, by name."""

    def __init__(
        self, client: Client, roster: ServedNodes, clock: Clock, wanted: Mapping[str, Node], *, untaint: bool = False
    ) -> None:
        self._client = client
        self._roster = roster
        self._clock = clock
        self._wanted = dict(wanted)
        self._untaint = untaint
        # On the monotonic clock, so that corrections of the time do not delay heartbeats.
        self._reported: dict[str, float] = {}
        self._renewed: dict[str, float] = {}
        self.on_registered: Callable[[str], None] = lambda _: None
        self.on_beat: tuple[Callable[[Node], None], ...] = ()
        self.volumes_in_use: Callable[[str], tuple[str, ...]] = lambda _: ()
        self.reported_volumes = ReportedVolumes()
        self.facts: dict[str, Node] = {}  # node objects to correct existing nodes by when first seen, by name
        self.longest_pause = MAX_LEASE_RENEW_SECONDS

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Register a node if required, renew its lease, and report its status."""
        name = key.name
        node = await self._register(name) if name in self._wanted else self._roster.get(name)
        if node is None or not self._roster.serves(node):
            return None
        if self._roster.state_of(node) != "":
            self._reported.pop(name, None)  # report at once when it is back
            self._renewed.pop(name, None)
            return None
        if (facts := self.facts.get(name)) is not None:
            await self._correct(node, facts)
            del self.facts[name]
        if (left := self._seconds_until_renewal(name)) < _RENEW_TOLERANCE_SECONDS:
            await self._renew(node)
            left = self._period()
        await self._report(node)
        for look_after in self.on_beat:
            look_after(node)
        return Result(requeue_after=min(left, self.longest_pause))

    def _period(self) -> float:
        return min(max(LEASE_RENEW_SECONDS, len(self._roster) / _RENEWALS_PER_SECOND), MAX_LEASE_RENEW_SECONDS)

    async def _register(self, name: str) -> Node:
        """Create a node unless it exists; a node that is deleted later is not created again."""
        node = self._roster.get(name) or await self._made(name)
        if not self._roster.serves(node):
            log.error("node %s cannot be simulated: there is another of that name", name)
        del self._wanted[name]
        self.on_registered(name)
        return node

    async def _made(self, name: str) -> Node:
        try:
            made: Node = await self._client.create(self._wanted[name])
        except AlreadyExists:
            return await self._client.get(Node, name)
        self._reported[name] = self._clock.monotonic()
        self.facts.pop(name, None)
        return await self._without_first_taint(made) if self._untaint else made

    async def _correct(self, node: Node, facts: Node) -> None:
        about, status = correction_patches(node, facts)
        if about:
            await self._client.patch(Node, node.metadata.name, about)
        if status:
            await self._client.patch(Node, node.metadata.name, status, subresource="status")

    async def _without_first_taint(self, node: Node) -> Node:
        """Remove the initial not-ready taint, for clusters without the controller that does."""
        kept = [one for one in node.spec.taints if one.key != NOT_READY_TAINT]
        if len(kept) == len(node.spec.taints):
            return node
        patch = {"spec": {"taints": codec.to_plain(kept) or None}}
        patched: Node = await self._client.patch(Node, node.metadata.name, patch)
        return patched

    async def _renew(self, node: Node) -> None:
        name, now = node.metadata.name, self._clock.now()
        if name not in self._renewed or not await self._patch_lease(name, now):
            try:
                await self._client.create(new_lease(node, now))
            except AlreadyExists:
                await self._patch_lease(name, now)
        self._renewed[name] = self._clock.monotonic()

    async def _patch_lease(self, name: str, now: datetime) -> bool:
        """Renew a lease; return False if it does not exist."""
        try:
            await self._client.patch(Lease, name, LeaseRenewalPatch(now), LEASE_NAMESPACE)
        except NotFound:
            return False
        return True

    def _seconds_until_renewal(self, name: str) -> float:
        """Return the seconds until the renewal; other reconciles do not shift it."""
        last = self._renewed.get(name)
        return 0.0 if last is None else self._period() - (self._clock.monotonic() - last)

    async def _report(self, node: Node) -> None:
        name, asked = node.metadata.name, self._clock.monotonic()
        trouble = "node is shutting down" if self._roster.is_shutting_down(node) else ""
        pressures, before = self._roster.pressures_of(node), node.status.conditions
        last = self._reported.get(name)
        fresh = last is not None and asked - last < NODE_STATUS_REPORT_SECONDS
        in_use = self.volumes_in_use(name)
        same_volumes = self.reported_volumes.is_current(name, in_use, node.status.volumes_in_use)
        if fresh and same_volumes and are_conditions_current(before, pressures, trouble):
            return
        conditions = node_conditions(pressures, before, self._clock.now(), trouble)
        if same_volumes:
            await self._write(name, conditions, None)
        else:
            with self.reported_volumes.writing(name, in_use):
                await self._write(name, conditions, in_use)
        self._reported[name] = asked

    async def _write(self, name: str, conditions: tuple[NodeCondition, ...], in_use: tuple[str, ...] | None) -> None:
        """Write a node's conditions, and its volumes in use unless unchanged (None)."""
        status: dict[str, Any] = {"conditions": codec.to_plain(conditions)}
        if in_use is not None:
            status["volumesInUse"] = list(in_use)
        await self._client.patch(Node, name, {"status": status}, type=STRATEGIC_PATCH, subresource="status")
