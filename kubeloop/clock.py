"""The only module that knows what time it is and where randomness comes from.

Everything else is handed a `Clock`, so that a test can replace time and chance.
"""

from __future__ import annotations

import random
import time
import zlib
from datetime import UTC, datetime
from typing import Protocol

# Where the system has it, the clock that counts on while the machine sleeps: a leader that wakes up must know how late
# it is.
_MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels or look-alikes: no accidental words
_SUFFIX_LENGTH = 5
# A UUID's version and variant are told by fixed bits, six of its 128.
_VERSION_4 = (0x4 << 76) | (0b10 << 62)
_RANDOM_BITS = (1 << 128) - 1 ^ (0xF << 76 | 0b11 << 62)
_SUFFIXES = len(_SUFFIX_ALPHABET) ** _SUFFIX_LENGTH


class Clock(Protocol):
    """Time and randomness, injected."""

    def now(self) -> datetime:
        """The present moment, in UTC."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, those that the machine slept through included; never goes back."""

    def random(self) -> random.Random:
        """The one random source."""


class SystemClock:
    """The machine's own time and randomness."""

    def __init__(self) -> None:
        self._random = random.Random()  # seeded by the system; names and uids are no secrets

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(_MONOTONIC)

    def random(self) -> random.Random:
        return self._random


def new_uid(clock: Clock) -> str:
    """A fresh version 4 UUID, from the clock's random source."""
    digits = f"{clock.random().getrandbits(128) & _RANDOM_BITS | _VERSION_4:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def name_suffix(clock: Clock) -> str:
    """The random tail of a generated name."""
    return _suffix(clock.random().randrange(_SUFFIXES))


def lasting_suffix(text: str) -> str:
    """A tail that looks like a random one, and is always the same for the same text."""
    return _suffix(zlib.crc32(text.encode()) % _SUFFIXES)


def _suffix(number: int) -> str:
    letters = []
    for _ in range(_SUFFIX_LENGTH):
        number, index = divmod(number, len(_SUFFIX_ALPHABET))
        letters.append(_SUFFIX_ALPHABET[index])
    return "".join(letters)
