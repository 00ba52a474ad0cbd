# SPDX-License-Identifier: Apache-2.0
"""Eviction signals of a real node: hard thresholds, and the pressure conditions that measurements give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import pack, unpack
from typing import NamedTuple

from kubeloop.api.scalars.quantity import Quantity, QuantityFormat, parse_quantity
from kubeloop.clock import Clock
from kubeloop.kubelet.eviction.thresholds import MEMORY, PRESSURE_TRANSITION_SECONDS, Shortage

DISK, PIDS = "DiskPressure", "PIDPressure"
_CONDITIONS = {
    "memory.available": MEMORY,
    "nodefs.available": DISK,
    "nodefs.inodesFree": DISK,
    "imagefs.available": DISK,
    "imagefs.inodesFree": DISK,
    "pid.available": PIDS,
}
DEFAULT_EVICTION_HARD = (
    "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%"
)


class SignalObservation(NamedTuple):
    """Measured value of a signal."""

    available: int
    capacity: int


class HardThreshold(NamedTuple):
    """Least available amount: a quantity, or a part of the capacity."""

    signal: str
    amount: int
    part: float | None = None

    def quantity(self, capacity: int) -> int:
        """Return the least available amount."""
        return self.amount if self.part is None else int(capacity * self.part)


def parse_eviction_hard(text: str) -> tuple[HardThreshold, ...]:
    """Parse thresholds such as `memory.available<100Mi,nodefs.available<10%`. Raises ValueError."""
    found = []
    for statement in filter(None, text.split(",")):
        signal, _, value = statement.partition("<")
        if signal not in _CONDITIONS or not value:
            raise ValueError(f"{statement!r} is not a signal, < and a value")
        if not value.endswith("%"):
            found.append(HardThreshold(signal, parse_quantity(value).value()))
            continue
        percent = float(value[:-1])
        if not 0 <= percent <= 100:
            raise ValueError(f"{value!r} is not a percentage")
        if percent:  # upstream keeps parts as float32; 0 % turns a threshold off
            found.append(HardThreshold(signal, 0, unpack("f", pack("f", percent / 100))[0]))
    return tuple(found)


class SignalTracker:
    """Pressure conditions of one node, from its measurements."""

    def __init__(self, clock: Clock, thresholds: tuple[HardThreshold, ...]) -> None:
        self._clock = clock
        self._thresholds = thresholds
        self._last_met: dict[str, float] = {}  # by condition, on the monotonic clock
        self._shortages: dict[str, Shortage] = {}  # by condition, of the last measurement
        self._is_acted_on = True

    def met(self, observations: Mapping[str, SignalObservation]) -> dict[str, Shortage]:
        """Return the conditions whose thresholds are met, memory first, each with the numbers of one signal."""
        found: dict[str, Shortage] = {}
        for one in self._thresholds:
            seen = observations.get(one.signal)
            if seen is None or seen.available >= one.quantity(seen.capacity):
                continue
            is_bytes = one.signal.endswith("s.available") or one.signal == "memory.available"
            format = QuantityFormat.BINARY_SI if is_bytes else QuantityFormat.DECIMAL_SI
            least = Quantity.of(one.quantity(seen.capacity), format)
            found.setdefault(_CONDITIONS[one.signal], Shortage(least, Quantity.of(seen.available, format)))
        return dict(sorted(found.items(), key=lambda pair: pair[0] != MEMORY))

    def update(self, observations: Mapping[str, SignalObservation]) -> None:
        """Take note of a measurement."""
        self._shortages = self.met(observations)
        self.mark(self._shortages)
        self._is_acted_on = False

    def mark(self, conditions: Iterable[str]) -> None:
        """Make conditions true for the transition period, without an eviction."""
        self._last_met |= dict.fromkeys(conditions, self._clock.monotonic())

    def conditions(self) -> list[str]:
        """Return the pressure conditions that are true, also for the transition period after their cause."""
        now = self._clock.monotonic()
        return [type for type, at in self._last_met.items() if now - at < PRESSURE_TRANSITION_SECONDS]

    def take_urgent_condition(self) -> str | None:
        """Return the condition that requires an eviction; at most one for each measurement."""
        if self._is_acted_on:
            return None
        self._is_acted_on = True
        return next(iter(self._shortages), None)

    def shortage(self, condition: str) -> Shortage | None:
        """Return the numbers of a condition in the last measurement."""
        return self._shortages.get(condition)
