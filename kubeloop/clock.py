# SPDX-License-Identifier: Apache-2.0
"""Sources of time and randomness, the only ones in the program.

All other modules receive a `Clock`, so that tests can replace time and randomness.
"""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

# Prefers the clock that advances while the system is suspended: a leader that wakes up must know the elapsed
# time.
_MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels or look-alikes: no accidental words
_SUFFIX_LENGTH = 5
# Fixed bits of a version 4 UUID: six of its 128 give version and variant.
_VERSION_4 = (0x4 << 76) | (0b10 << 62)
_RANDOM_BITS = (1 << 128) - 1 ^ (0xF << 76 | 0b11 << 62)
_SUFFIXES = len(_SUFFIX_ALPHABET) ** _SUFFIX_LENGTH
_PAIRS = [first + second for second in _SUFFIX_ALPHABET for first in _SUFFIX_ALPHABET]


class Clock(Protocol):
    """Protocol for an injected source of time and randomness."""

    def now(self) -> datetime:
        """Return the current time in UTC."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start, including suspended time; never decreases."""

    def random(self) -> random.Random:
        """Return the shared random number generator."""


class SystemClock:
    """Clock backed by the operating system's time and randomness."""

    # The system's monotonic clock in seconds. No method, because it is read several times in each request.
    monotonic: Callable[[], float] = staticmethod(partial(time.clock_gettime, _MONOTONIC))

    def __init__(self) -> None:
        self._random = random.Random()  # seeded by the system; names and UIDs are no secrets

    def now(self) -> datetime:
        """Return the system's wall clock time in UTC."""
        return datetime.now(UTC)

    def random(self) -> random.Random:
        """Return this clock's random number generator."""
        return self._random


def new_uid(clock: Clock) -> str:
    """Return a new version 4 UUID, drawn from the clock's random source."""
    digits = f"{clock.random().getrandbits(128) & _RANDOM_BITS | _VERSION_4:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def random_suffix(clock: Clock) -> str:
    """Return the random suffix of a generated name."""
    return _suffix(clock.random().randrange(_SUFFIXES))


def deterministic_suffix(text: str) -> str:
    """Return a suffix in the form of a random one that is always the same for the same text."""
    return _suffix(zlib.crc32(text.encode()) % _SUFFIXES)


def _suffix(number: int) -> str:
    """Return the digits of a number in the alphabet's base, the lowest first; two at a time, as it is called often."""
    pairs = len(_PAIRS)
    return _PAIRS[number % pairs] + _PAIRS[number // pairs % pairs] + _SUFFIX_ALPHABET[number // (pairs * pairs)]
