# SPDX-License-Identifier: Apache-2.0
"""Returns freed memory to the operating system.

The C library keeps the memory of large responses for later ones. After 1,000 lists of 4.6 MB, 200 at a time, the
process kept 1.3 GB (see bench/README.md).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

_TRIM_SECONDS: Final = 10.0
# Growth that is worth a trim, which takes some milliseconds.
_WORTHWHILE: Final = 64 << 20
_MAX_PAUSE: Final = 64  # periods
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Return the resident size of this process; 0 where it is unknown."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except OSError:
        return 0


def load_malloc_trim() -> Callable[[int], int] | None:
    """Return glibc's function; None with another C library."""
    import ctypes  # takes a few milliseconds, which a start need not wait for

    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim


class MemoryTrimmer:
    """Decides periodically if the heap should be trimmed.

    A process that has grown since its smallest size is trimmed. If that returned little, because the memory is in use,
    the next attempt waits twice as long, up to a limit, unless the process has grown much meanwhile.
    """

    def __init__(self, trim: Callable[[int], int] | None, resident: Callable[[], int] = resident_bytes) -> None:
        self._trim = trim
        self._resident = resident
        self._after_last = self._smallest = resident()
        self._pause = self._left = 1  # in periods

    def is_worthwhile(self) -> bool:
        """Return True if the heap should be trimmed now; called once per period."""
        if self._trim is None:
            return False
        now = self._resident()
        self._left -= 1
        has_grown = now - self._after_last > _WORTHWHILE
        return now - self._smallest > _WORTHWHILE and (has_grown or self._left <= 0)

    def run(self) -> None:
        """Trim the heap. Blocks without holding the interpreter's lock."""
        if self._trim is None:
            return
        before = self._resident()
        self._trim(0)
        self._after_last = self._resident()
        self._smallest = min(self._smallest, self._after_last)
        gained = before - self._after_last > _WORTHWHILE
        self._pause = 1 if gained else min(2 * self._pause, _MAX_PAUSE)
        self._left = self._pause


async def trim_memory_periodically() -> None:
    """Trim the heap of this process whenever that is worthwhile, until cancelled."""
    await asyncio.sleep(_TRIM_SECONDS)
    trimmer = MemoryTrimmer(load_malloc_trim())
    while True:
        await asyncio.sleep(_TRIM_SECONDS)
        if trimmer.is_worthwhile():
            await asyncio.to_thread(trimmer.run)
