"""When an event loop has time to spare: for work that others must not have to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

BUSY = 0.002  # seconds: a turn of the loop that takes longer, or a timer that comes later, had others before it
PAUSE = 0.02  # seconds between two looks at a busy loop


async def quiet_moment(longest: float, is_urgent: Callable[[], bool]) -> bool:
    """Return when the event loop has little else to do, after so many seconds, or when it can't wait; whether it is
    quiet.

    In virtual time no work takes any, so that every moment is quiet.
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
