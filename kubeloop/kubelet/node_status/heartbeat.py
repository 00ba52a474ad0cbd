# SPDX-License-Identifier: Apache-2.0
"""Keeps the Node, the Lease and the conditions of every node of an agent current, from one loop.

Watches: nodes.
Owns: the Node and Lease of each node that it serves.
Writes: creates Nodes that are missing when it starts; renews Leases every ten seconds; patches a node's conditions
when they or the volumes in use change, and every five minutes; corrects the addresses of a Node that already exists.
Wakes itself: when a lease is due.
Differs from upstream: with more than 2,500 nodes in one process leases are renewed less often, every 20 s at least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from kubeloop.api import codec
from kubeloop.api.errors import AlreadyExists, NotFound
from kubeloop.api.generated.coordination_v1 import Lease, LeaseSpec
from kubeloop.api.generated.core_v1 import Node, NodeCondition
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.scalars.times import format_micro_time
from kubeloop.api.scalars.wire import MicroTime
from kubeloop.api.struct_patch import StructPatch
from kubeloop.client import Client
from kubeloop.kubelet.node_status.registrar import NodeRegistrar
from kubeloop.kubelet.node_status.registration import (
    LEASE_NAMESPACE,
    are_conditions_current,
    new_lease,
    node_conditions,
)
from kubeloop.kubelet.node_status.served_nodes import ServedNodes
from kubeloop.kubelet.volumes.watch import VolumeWatch
from kubeloop.runtime.controller import Result
from kubeloop.runtime.objects.keys import ObjectKey

LEASE_RENEW_SECONDS = 10.0
MAX_LEASE_RENEW_SECONDS = 20.0
# Renewals per second up to which the period is not extended.
_RENEWALS_PER_SECOND = 250.0
# Renewals due within this time are done now, as rounding could make a short wait repeat forever.
_RENEW_TOLERANCE_SECONDS = 0.001
NODE_STATUS_REPORT_SECONDS = 300.0


class LeaseRenewalPatch(StructPatch):
    """Patch that renews a lease: only renewTime changes, every few seconds, for thousands of nodes."""

    part = "spec"
    uid = ""

    def __init__(self, now: datetime) -> None:
        self._time = MicroTime(format_micro_time(now))

    @property
    def document(self) -> dict[str, Any]:
        """Body of the patch."""
        return {"spec": {"renewTime": self._time}}

    def apply_to(self, present: LeaseSpec) -> LeaseSpec:
        """Return the spec with the new renewTime."""
        return msgspec.structs.replace(present, renew_time=self._time)


class NodeHooks(NamedTuple):
    """Handlers called for a node at each heartbeat, and the reason why a node is not ready (empty if it is)."""

    handlers: Sequence[Callable[[Node], None]]
    trouble_of: Callable[[Node], str]


class NodeHeartbeat:
    """Reconciles nodes."""

    def __init__(
        self,
        client: Client,
        served_nodes: ServedNodes,
        registrar: NodeRegistrar,
        volumes: VolumeWatch,
        hooks: NodeHooks,
        max_interval_seconds: float,
    ) -> None:
        self._client = client
        self._served_nodes = served_nodes
        self._clock = served_nodes.clock
        self._registrar = registrar
        self._volumes = volumes
        self._hooks = hooks
        self._max_interval_seconds = max_interval_seconds
        # On the monotonic clock, so that corrections of the time do not delay heartbeats.
        self._reported: dict[str, float] = {}
        self._renewed: dict[str, float] = {}

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Register a node if required, renew its lease, and report its status."""
        name = key.name
        node = await self._register(name) if self._registrar.is_wanted(name) else self._served_nodes.get(name)
        if node is None or not self._served_nodes.serves(node):
            return None
        if self._served_nodes.state_of(node) != "":
            self._reported.pop(name, None)  # report at once when it is back
            self._renewed.pop(name, None)
            return None
        await self._registrar.correct(node)
        if (left := self._seconds_until_renewal(name)) < _RENEW_TOLERANCE_SECONDS:
            await self._renew(node)
            left = self._period()
        await self._report(node)
        for handle in self._hooks.handlers:
            handle(node)
        return Result(requeue_after=min(left, self._max_interval_seconds))

    def _period(self) -> float:
        return min(max(LEASE_RENEW_SECONDS, len(self._served_nodes) / _RENEWALS_PER_SECOND), MAX_LEASE_RENEW_SECONDS)

    async def _register(self, name: str) -> Node:
        """Create a node unless it exists; a new one has just reported its status."""
        node = self._served_nodes.get(name)
        if node is None:
            created = await self._registrar.create_node(name)
            if created is not None:
                self._reported[name] = self._clock.monotonic()
                node = await self._registrar.remove_initial_taint(created)
            else:
                node = await self._client.get(Node, name)
        self._registrar.set_registered(node)
        return node

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
        trouble = self._hooks.trouble_of(node)
        pressures, before = self._served_nodes.node_pressures(node), node.status.conditions
        last = self._reported.get(name)
        fresh = last is not None and asked - last < NODE_STATUS_REPORT_SECONDS
        in_use = self._volumes.volumes_in_use(name)
        same_volumes = self._volumes.reported_volumes.is_current(name, in_use, node.status.volumes_in_use)
        if fresh and same_volumes and are_conditions_current(before, pressures, trouble):
            return
        conditions = node_conditions(pressures, before, self._clock.now(), trouble)
        if same_volumes:
            await self._write(name, conditions, None)
        else:
            with self._volumes.reported_volumes.confirm_after(name, in_use):
                await self._write(name, conditions, in_use)
        self._reported[name] = asked

    async def _write(self, name: str, conditions: tuple[NodeCondition, ...], in_use: tuple[str, ...] | None) -> None:
        """Write a node's conditions, and its volumes in use unless unchanged (None)."""
        status: dict[str, Any] = {"conditions": codec.to_plain(conditions)}
        if in_use is not None:
            status["volumesInUse"] = list(in_use)
        await self._client.patch(Node, name, {"status": status}, type=STRATEGIC_PATCH, subresource="status")
