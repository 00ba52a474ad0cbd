# SPDX-License-Identifier: Apache-2.0
"""Locks by key, for work on one pod that must not run twice at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class KeyedLock:
    """One lock per key, which exists while it is held."""

    def __init__(self) -> None:
        self._held: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[None]:
        """Wait until no other task holds the key, then hold it."""
        while (other := self._held.get(key)) is not None:
            await other.wait()
        released = self._held[key] = asyncio.Event()
        try:
            yield
        finally:
            del self._held[key]
            released.set()
