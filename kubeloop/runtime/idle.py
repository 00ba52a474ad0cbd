# SPDX-License-Identifier: Apache-2.0
"""Waits until the event loop is idle, for background work that must not delay others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

BUSY = 0.002  # seconds: a longer turn of the loop, or a later timer, means that the loop is busy
PAUSE = 0.02  # seconds between two checks of a busy loop


async def wait_idle(longest: float, is_urgent: Callable[[], bool]) -> bool:
    """Wait until the event loop is idle, `longest` seconds have passed or it is urgent; return True if idle.

    In virtual time work takes no time, so that every moment is idle.
    """
    loop = asyncio.get_running_loop()
    began = now = loop.time()
    await asyncio.sleep(0)
    late = loop.time() - now
    while late > BUSY:
        now = loop.time()
        if now - began > longest or is_urgent():
            return False
        await asyncio.sleep(PAUSE)
        late = loop.time() - now - PAUSE
    return True
