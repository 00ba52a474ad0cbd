"""Pods that have a node and wait for a permit to be bound to it."""

from __future__ import annotations

import asyncio

from kubeloop.scheduler.outcome import Refusal


class Permits:
    """Whoever holds a pod back allows or refuses it here."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[Refusal | None]] = {}

    async def wait(self, uid: str, seconds: float) -> Refusal | None:
        """Until somebody decides; raises `TimeoutError` if nobody does in time."""
        future: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()
        self._waiting[uid] = future
        try:
            async with asyncio.timeout(seconds):
                return await future
        finally:
            self._waiting.pop(uid, None)

    def allow(self, uid: str) -> bool:
        return self._decide(uid, None)

    def refuse(self, uid: str, refusal: Refusal) -> bool:
        """Whether the pod was waiting at all."""
        return self._decide(uid, refusal)

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiting

    def _decide(self, uid: str, answer: Refusal | None) -> bool:
        future = self._waiting.get(uid)
        if future is None or future.done():
            return False
        future.set_result(answer)
        return True
