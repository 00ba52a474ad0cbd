# SPDX-License-Identifier: Apache-2.0
"""Periodic callbacks on the event loop's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class PeriodicJob:
    """Calls a function every so many seconds until cancelled; the loop's handler reports failures."""

    def __init__(self, seconds: float, chore: Callable[[], None]) -> None:
        self._seconds = seconds
        self._callback = chore
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(seconds, self._run)

    def _run(self) -> None:
        self._timer = self._loop.call_later(self._seconds, self._run)  # first, so that no failure stops the schedule
        self._callback()

    def cancel(self) -> None:
        """Stop the calls."""
        self._timer.cancel()
