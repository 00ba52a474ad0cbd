# SPDX-License-Identifier: Apache-2.0
"""Application of loops: a manager with the informers and the event recorder that its loops share.

LoopContext ──▶ wire(context) ──▶ loops ──▶ LoopManager ──▶ App.run: recorder, informers, loops; stopped in reverse
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.manager import DRAIN_SECONDS, LoopManager

_POLL_SECONDS = 0.01  # seconds between two checks of the work queues


@dataclass(frozen=True, slots=True)
class LoopContext:
    """Dependencies of any loop: it writes through `client`, which may be its own, and reads from shared caches."""

    client: Client
    informers: SharedInformerFactory
    clock: Clock
    telemetry: Telemetry = field(default_factory=Telemetry, kw_only=True)


async def _nothing_to_close() -> None:
    """Close nothing."""


class App:
    """Wired loops that are ready to run, once."""

    def __init__(
        self,
        manager: LoopManager,
        informers: SharedInformerFactory,
        recorder: EventRecorder | None = None,
        close: Callable[[], Awaitable[None]] = _nothing_to_close,
    ) -> None:
        self.manager = manager
        self.informers = informers
        self._recorder = recorder  # None if the loops run their own
        self._close = close  # called when no loop runs any more

    async def run(self, grace: Callable[[], float] = lambda: DRAIN_SECONDS) -> None:
        """Fill the caches and keep the loops running until cancelled; then drain them for `grace()` seconds."""
        recording = self._start_recorder()
        self.informers.start()
        try:
            await self.manager.run(grace)
        finally:
            await self.informers.stop()
            await self._close()
            if self._recorder is not None and recording is not None:
                await self._recorder.flush(grace())
                recording.cancel()
                await asyncio.wait((recording,))

    async def wait_initial_sync(self, within: float) -> None:
        """Wait until the loops have processed all initial objects, or until `within` seconds have passed."""
        try:
            async with asyncio.timeout(within):
                await self.informers.wait_synced(within)
                while any(one.depth or one.active for one in self.manager.status()):  # noqa: ASYNC110  # there is no event
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            return

    def _start_recorder(self) -> asyncio.Task[None] | None:
        return None if self._recorder is None else asyncio.create_task(self._recorder.run(), name="event recorder")
