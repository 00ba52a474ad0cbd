# SPDX-License-Identifier: Apache-2.0
"""Virtual event loop that can switch to real time for external programs."""

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
    """Runs in virtual time during `run`; live, it runs in a thread."""

    def __init__(self, shuffle: random.Random | None = None) -> None:
        self._wall = SystemClock()
        self._live_since: float | None = None
        self._thread: Thread | None = None
        super().__init__(shuffle)

    @property
    def is_live(self) -> bool:
        """True while the loop runs in real time."""
        return self._live_since is not None

    def time(self) -> float:
        """Return the loop's time, virtual or real."""
        if self._live_since is None:
            return self._now  # as in the base class, at half of the cost of calling it
        return self._now + self._wall.monotonic() - self._live_since

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine from outside of the loop and wait for its result."""
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
        """Switch to real time and run in a thread."""
        self._live_since = self._wall.monotonic()
        self._thread = Thread(target=self.run_forever, name="kubeloop cluster", daemon=True)
        self._thread.start()

    def go_virtual(self) -> None:
        """Stop the thread; time stands still from here on."""
        assert self._thread is not None
        self.call_soon_threadsafe(self.stop)
        self._thread.join()
        self._now, self._live_since, self._thread = self.time(), None, None

    async def advance(self, seconds: float) -> None:
        """Let virtual time pass; raises RuntimeError while live."""
        if self.is_live:
            raise RuntimeError("while a port is open, time is not virtual: use eventually()")
        await super().advance(seconds)

    def on_idle(self, timeout: float | None) -> None:
        """Wait for I/O if live, else advance virtual time."""
        if self.is_live:
            selectors.SelectSelector.select(self._selector, timeout)  # type: ignore[attr-defined]  # asyncio's own
        else:
            super().on_idle(timeout)
