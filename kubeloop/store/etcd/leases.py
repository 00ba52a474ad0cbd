# SPDX-License-Identifier: Apache-2.0
"""Leases for keys with a time to live, shared by the writes of a minute.

Upstream's numbers: a lease is reused for a minute, or a thousand keys, and lasts that much longer than asked.
"""

from __future__ import annotations

import asyncio
from math import ceil

from kubeloop.clock import Clock
from kubeloop.store.etcd.client import GRANT, EtcdClient
from kubeloop.store.etcd.messages import lease_request, read_lease

_REUSE_SECONDS = 60.0
_MOST_KEYS = 1000


class Leases:
    """Prefixes with a time to live, and their current leases."""

    def __init__(self, connection: EtcdClient, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._ttls: dict[str, float] = {}
        self._granted: dict[str, _GrantedLease] = {}
        self._granting = asyncio.Lock()

    def set_ttl(self, prefix: str, seconds: float) -> None:
        """Set the time to live of keys under a prefix."""
        self._ttls[prefix] = seconds

    def has_ttl(self, key: str) -> bool:
        """Return True if a key has a time to live."""
        return key.startswith(tuple(self._ttls))

    async def lease_for(self, key: str) -> int:
        """Return the lease of a key; 0 for a key without a time to live."""
        for prefix, seconds in self._ttls.items():
            if key.startswith(prefix):
                return await self.current_lease(prefix, seconds)
        return 0

    def forget(self) -> None:
        """Drop the granted leases after etcd reports one as unknown."""
        self._granted.clear()

    async def current_lease(self, prefix: str, seconds: float) -> int:
        """Return the lease that keys under a prefix currently share."""
        async with self._granting:
            granted = self._granted.get(prefix)
            if granted is None or not granted.serves(self._clock.monotonic()):
                reuse = min(_REUSE_SECONDS, seconds)
                answer = await self._connection.call(GRANT, lease_request(max(1, ceil(seconds + reuse))))
                granted = _GrantedLease(read_lease(answer), self._clock.monotonic() + reuse)
                self._granted[prefix] = granted
            granted.keys += 1
            return granted.identity


class _GrantedLease:
    def __init__(self, identity: int, until: float) -> None:
        self.identity = identity
        self.keys = 0
        self._until = until

    def serves(self, now: float) -> bool:
        return now < self._until and self.keys < _MOST_KEYS
