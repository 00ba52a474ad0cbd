"""A virtual loop that can be made to follow the wall clock for a while, because programs outside live by that."""

from __future__ import annotations

import random
import selectors
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from threading import Thread
from typing import Any, TypeVar

from kubeloop.clock import SystemClock
from kubeloop.sim.loop import VirtualLoop

T = TypeVar("T")


class ClusterLoop(VirtualLoop):
    """In virtual time it runs while somebody waits in `run`; live it runs by itself, in a thread."""

    def __init__(self, shuffle: random.Random | None = None) -> None:
        self._wall = SystemClock()
        self._live_since: float | None = None
        self._thread: Thread | None = None
        super().__init__(shuffle)

    @property
    def is_live(self) -> bool:
        return self._live_since is not None

    def time(self) -> float:
        if self._live_since is None:
            return super().time()
        return self._now + self._wall.monotonic() - self._live_since

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for the work from outside of the loop."""
        if not self.is_live:
            return self.run_until_complete(work)
        import asyncio

        future = asyncio.run_coroutine_threadsafe(work, self)
        try:
            return future.result()
        except (KeyboardInterrupt, CancelledError):
            future.cancel()
            raise

    def go_live(self) -> None:
        """Let time pass as on the wall, and run in a thread from here on."""
        self._live_since = self._wall.monotonic()
        self._thread = Thread(target=self.run_forever, name="kubeloop cluster", daemon=True)
        self._thread.start()

    def go_virtual(self) -> None:
        """Stop the thread; time stands still where it is."""
        assert self._thread is not None
        self.call_soon_threadsafe(self.stop)
        self._thread.join()
        self._now, self._live_since, self._thread = self.time(), None, None

    async def advance(self, seconds: float) -> None:
        if self.is_live:
            raise RuntimeError("while a port is open time passes by itself: use eventually()")
        await super().advance(seconds)

    def nothing_to_do(self, timeout: float | None) -> None:
        """Live, wait as any loop does; what has become ready is found in the next turn."""
        if self.is_live:
            selectors.SelectSelector.select(self._selector, timeout)  # type: ignore[attr-defined]  # asyncio's own
        else:
            super().nothing_to_do(timeout)
