# SPDX-License-Identifier: Apache-2.0
"""Lease controller: creates and renews the Leases of an agent's nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from kubeloop.api.errors import AlreadyExists, NotFound
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.struct_patch import LeaseRenewalPatch
from kubeloop.client import Client
from kubeloop.kubelet.node_status.registration import LEASE_NAMESPACE, LEASE_SECONDS, new_lease
from kubeloop.kubelet.node_status.served_nodes import ServedNodes

LEASE_RENEW_SECONDS = 10.0
MAX_LEASE_RENEW_SECONDS = 20.0
# Renewals per second up to which the period is not extended.
_RENEWALS_PER_SECOND = 250.0
# Renewals due within this time are done now, as rounding could make a short wait repeat forever.
_RENEW_TOLERANCE_SECONDS = 0.001


class LeaseController:
    """Leases of an agent's nodes, and when they were renewed: four times in their duration."""

    def __init__(self, client: Client, served_nodes: ServedNodes, duration_seconds: int = LEASE_SECONDS) -> None:
        self._duration_seconds = duration_seconds
        self._client = client
        self.served_nodes = served_nodes
        self._clock = served_nodes.clock
        # On the monotonic clock, so that corrections of the time do not delay heartbeats.
        self._renewed: dict[str, float] = {}

    @property
    def period(self) -> float:
        """Seconds from one renewal of a lease to the next."""
        scale = self._duration_seconds / LEASE_SECONDS
        slow = len(self.served_nodes) / _RENEWALS_PER_SECOND
        return min(max(LEASE_RENEW_SECONDS * scale, slow), MAX_LEASE_RENEW_SECONDS * scale)

    def seconds_until_renewal(self, name: str) -> float:
        """Return the seconds until a node's lease is due; 0 if it is."""
        last = self._renewed.get(name)
        left = 0.0 if last is None else self.period - (self._clock.monotonic() - last)
        return left if left >= _RENEW_TOLERANCE_SECONDS else 0.0

    def expired(self, names: Iterable[str], period: float) -> list[str]:
        """Return those of the nodes whose lease is due; `period` is the present one."""
        renewed, latest = self._renewed, self._clock.monotonic() - period + _RENEW_TOLERANCE_SECONDS
        return [name for name in names if name not in renewed or renewed[name] < latest]

    def forget(self, name: str) -> None:
        """Let a lease be due at once when its node is back."""
        self._renewed.pop(name, None)

    async def renew(self, node: Node) -> None:
        """Renew a node's lease, or create it."""
        name, now = node.metadata.name, self._clock.now()
        if name not in self._renewed or not await self._patch(name, now):
            try:
                await self._client.create(new_lease(node, now, self._duration_seconds))
            except AlreadyExists:
                await self._patch(name, now)
                await self._correct_duration(name)
        self._renewed[name] = self._clock.monotonic()

    async def _correct_duration(self, name: str) -> None:
        """Change the duration of a lease that exists, unless it is the usual one."""
        if self._duration_seconds != LEASE_SECONDS:
            patch = {"spec": {"leaseDurationSeconds": self._duration_seconds}}
            await self._client.patch(Lease, name, patch, LEASE_NAMESPACE)

    async def renew_together(self, names: Sequence[str]) -> frozenset[str]:
        """Renew those of the leases that can be renewed in one commit; returns the names of their nodes."""
        if not names:
            return frozenset()
        renewal = LeaseRenewalPatch(self._clock.now())
        renewed = await self._client.patch_together(Lease, names, renewal, LEASE_NAMESPACE)
        self._renewed.update(dict.fromkeys(renewed, self._clock.monotonic()))
        return renewed

    async def _patch(self, name: str, now: datetime) -> bool:
        """Renew a lease; return False if it does not exist."""
        try:
            await self._client.patch(Lease, name, LeaseRenewalPatch(now), LEASE_NAMESPACE)
        except NotFound:
            return False
        return True
