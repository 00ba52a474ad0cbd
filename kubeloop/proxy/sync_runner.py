# SPDX-License-Identifier: Apache-2.0
"""Runs a sync when it is requested: not more often than a period, again after an error, and once in a while anyway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

_FIRST_RETRY: Final = 1.0

log = logging.getLogger(__name__)


class SyncIntervals(NamedTuple):
    """Seconds: least between two runs, longest until a failed run is repeated, longest between two runs.

    A failed run is repeated after a second, then after twice the time at each failure.
    """

    minimum: float
    retry: float
    maximum: float


class BoundedFrequencyRunner:
    """Runs a function that returns True if it has succeeded."""

    def __init__(self, function: Callable[[], Awaitable[bool]], intervals: SyncIntervals) -> None:
        self._function = function
        self._intervals = intervals
        self._requested = asyncio.Event()

    def request(self) -> None:
        """Run as soon as possible."""
        self._requested.set()

    async def run(self) -> None:
        """Run until cancelled."""
        minimum, retry, maximum = self._intervals
        following, failures = maximum, 0
        while True:
            try:
                async with asyncio.timeout(following):
                    await self._requested.wait()
            except TimeoutError:
                log.debug("running without a request after %.0f seconds", following)
            self._requested.clear()
            if await self._run_once():
                following, failures = maximum, 0
            else:
                following, failures = min(_FIRST_RETRY * 2**failures, retry, maximum), min(failures + 1, 32)
            if minimum:
                await asyncio.sleep(minimum)

    async def _run_once(self) -> bool:
        try:
            return await self._function()
        except Exception:  # the next run repairs what this one has left
            log.exception("the sync failed")
            return False
