"""The pods of a namespace as the server has them now, listed once for all who ask at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.client import Client


class _Listed(NamedTuple):
    begun: int
    pods: Sequence[Pod]


class _Turn:
    """Who waits for a namespace's pods, and what the last one was told."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.askers = 0
        self.last = _Listed(-1, ())


class LivePods:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._moments = count()
        self._turns: dict[str, _Turn] = {}

    async def of(self, namespace: str) -> Sequence[Pod]:
        """A list that was begun after this was called."""
        asked = next(self._moments)
        turn = self._turns.setdefault(namespace, _Turn())
        turn.askers += 1
        try:
            async with turn.lock:
                if turn.last.begun < asked:
                    begun = next(self._moments)
                    turn.last = _Listed(begun, (await self._client.list(Pod, namespace)).items)
                return turn.last.pods
        finally:
            turn.askers -= 1
            if not turn.askers:
                self._turns.pop(namespace, None)
