# SPDX-License-Identifier: Apache-2.0
"""Eviction thresholds: pressure conditions of nodes with transition and grace periods."""

from __future__ import annotations

from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.scalars.quantity import Quantity, QuantityFormat, parse_quantity
from kubeloop.clock import Clock
from kubeloop.kubelet.simulated.script import parse_seconds

PRESSURE = "sim.kubeloop.io/pressure"
PRESSURES = {"memory": "MemoryPressure", "disk": "DiskPressure", "pid": "PIDPressure"}
# Period in seconds that a condition stays true after its cause, as the kubelet's default.
PRESSURE_TRANSITION_SECONDS = 300.0
MEMORY = "MemoryPressure"
_LEAST_MEMORY = 100 * 2**20  # the kubelet's default threshold memory.available
_LEAST_PART = 0.10000000149011612  # nodefs.available: 10% as float32, as upstream keeps it
_PIDS = 32768


class Threshold(NamedTuple):
    """Threshold that is met."""

    condition: str
    grace_period_seconds: float = 0.0  # grace period in seconds before pods are evicted


class Shortage(NamedTuple):
    """Threshold quantity and available quantity."""

    threshold: Quantity
    available: Quantity
    max_grace_seconds: int | None = None  # longest grace period of evicted pods for a soft threshold; negative: any


class PressureTracker:
    """Tracks by node when thresholds were met, on the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: dict[str, dict[str, float]] = {}  # by node, conditions observed within the transition period
        self._first: dict[str, dict[Threshold, float]] = {}  # by node, thresholds met, with the first time

    def update(self, node: Node) -> list[str]:
        """Update the observations of a node and return the types of its pressure conditions."""
        name = node.metadata.name
        if PRESSURE not in node.metadata.annotations and name not in self._last:
            return []
        now, seen = self._clock.monotonic(), parse_thresholds(node)
        recent = {type: at for type, at in self._last.get(name, {}).items() if now - at < PRESSURE_TRANSITION_SECONDS}
        recent |= {one.condition: now for one in seen}
        first = self._first.get(name, {})
        self._first[name] = {one: first.get(one, now) for one in seen}
        self._last[name] = recent
        if not recent:
            del self._last[name], self._first[name]
        return list(recent)

    def urgent_condition(self, node: Node) -> str | None:
        """Return the pressure condition whose grace period has passed, memory first; None without any."""
        first = self._first.get(node.metadata.name)
        if not first:
            return None
        now = self._clock.monotonic()
        met = [one.condition for one, at in first.items() if now - at >= one.grace_period_seconds]
        return MEMORY if MEMORY in met else met[0] if met else None


def parse_thresholds(node: Node) -> list[Threshold]:
    """Return the thresholds of a node's annotation, such as `memory,disk:90s`."""
    found = []
    for part in node.metadata.annotations.get(PRESSURE, "").split(","):
        what, _, patience = part.strip().partition(":")
        if what in PRESSURES:
            found.append(Threshold(PRESSURES[what], parse_seconds(patience) or 0.0))
    return found


def pressure_shortage(node: Node, condition: str, used: int = 0) -> Shortage:
    """Return the numbers of a condition: half of the threshold is available, or less if pods leave less."""
    capacity = _capacity(node, condition)
    least = _LEAST_MEMORY if condition == MEMORY else int(capacity * _LEAST_PART)
    format = QuantityFormat.DECIMAL_SI if condition == "PIDPressure" else QuantityFormat.BINARY_SI
    return Shortage(Quantity.of(least, format), Quantity.of(min(max(capacity - used, 0), least // 2), format))


def available_amount(node: Node, condition: str, used: int) -> int:
    """Return the available amount of the resource of a condition."""
    if any(one.condition == condition for one in parse_thresholds(node)):
        return pressure_shortage(node, condition, used).available.value()
    return max(_capacity(node, condition) - used, 0)


def _capacity(node: Node, condition: str) -> int:
    name = "memory" if condition == MEMORY else "ephemeral-storage"
    return _PIDS if condition == "PIDPressure" else parse_quantity(node.status.capacity.get(name, "0")).value()
