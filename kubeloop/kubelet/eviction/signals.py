# SPDX-License-Identifier: Apache-2.0
"""Eviction signals of a real node: hard and soft thresholds, and the pressure conditions that measurements give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import pack, unpack
from typing import NamedTuple

from kubeloop.api.scalars.duration import SECOND, parse_duration
from kubeloop.api.scalars.quantity import Quantity, QuantityFormat, parse_quantity
from kubeloop.clock import Clock
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration
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


def parse_eviction_hard(thresholds: Mapping[str, str]) -> tuple[HardThreshold, ...]:
    """Parse thresholds such as `100Mi` and `10%`, by signal. Raises ValueError."""
    found = []
    for signal, value in thresholds.items():
        if signal not in _CONDITIONS:
            raise ValueError(f"eviction signal {signal} is not known")
        if not value.endswith("%"):
            found.append(HardThreshold(signal, parse_quantity(value).value()))
            continue
        percent = float(value[:-1])
        if not 0 <= percent <= 100:
            raise ValueError(f"{value!r} is not a percentage")
        if percent:  # upstream keeps parts as float32; 0 % turns a threshold off
            found.append(HardThreshold(signal, 0, unpack("f", pack("f", percent / 100))[0]))
    return tuple(found)


class SoftThreshold(NamedTuple):
    """Threshold that must be met for some seconds before pods are evicted."""

    threshold: HardThreshold
    grace_seconds: float


class EvictionPolicy(NamedTuple):
    """Thresholds of a node, and how it evicts."""

    hard: tuple[HardThreshold, ...]
    soft: tuple[SoftThreshold, ...] = ()
    min_reclaims: Mapping[str, HardThreshold] = {}  # amounts above the threshold that end a shortage, by signal
    transition_seconds: float = PRESSURE_TRANSITION_SECONDS
    max_pod_grace_seconds: int = 0  # of pods evicted for soft thresholds; negative: the pods' own


def eviction_policy_of(settings: KubeletConfiguration) -> EvictionPolicy:
    """Return the policy of a configuration. Raises ValueError."""
    grace_periods = {signal: _parse_grace(signal, text) for signal, text in settings.eviction_soft_grace_period.items()}
    soft = []
    for one in parse_eviction_hard(settings.eviction_soft):
        if one.signal not in grace_periods:
            raise ValueError(f"grace period must be specified for the soft eviction threshold {one.signal}")
        soft.append(SoftThreshold(one, grace_periods[one.signal]))
    return EvictionPolicy(
        parse_eviction_hard(settings.eviction_hard),
        tuple(soft),
        {one.signal: one for one in parse_eviction_hard(settings.eviction_minimum_reclaim)},
        settings.eviction_pressure_transition_period,
        settings.eviction_max_pod_grace_period,
    )


def _parse_grace(signal: str, text: str) -> float:
    if signal not in _CONDITIONS:
        raise ValueError(f"eviction signal {signal} is not known")
    seconds = parse_duration(text) / SECOND
    if seconds < 0:
        raise ValueError(f"invalid eviction grace period specified: {text}, must be a positive value")
    return seconds


class _Rule(NamedTuple):
    """Hard or soft threshold."""

    threshold: HardThreshold
    grace_seconds: float = 0.0
    is_soft: bool = False


class SignalTracker:
    """Pressure conditions of one node, from its measurements."""

    def __init__(self, clock: Clock, policy: EvictionPolicy) -> None:
        self._clock = clock
        self._policy = policy
        self._rules = (*map(_Rule, policy.hard), *(_Rule(*one, is_soft=True) for one in policy.soft))
        self._first_met: dict[_Rule, float] = {}  # thresholds that are met, on the monotonic clock
        self._urgent: frozenset[_Rule] = frozenset()  # those of them whose grace period has passed
        self._last_met: dict[str, float] = {}  # by condition, on the monotonic clock
        self._shortages: dict[str, Shortage] = {}  # by condition, of the last measurement
        self._is_acted_on = True

    def observe(self, observations: Mapping[str, SignalObservation]) -> Mapping[str, Shortage]:
        """Record a measurement; return the conditions that require an eviction, memory first.

        A threshold whose grace period has passed stays met until its least amount is reclaimed, too.
        """
        now = self._clock.monotonic()
        met = [one for one in self._rules if self._is_met(one, observations)]
        self._first_met = {one: self._first_met.get(one, now) for one in met}
        self.mark(_CONDITIONS[one.threshold.signal] for one in met)
        urgent = [one for one in met if now - self._first_met[one] >= one.grace_seconds]
        self._urgent = frozenset(urgent)
        found: dict[str, Shortage] = {}
        for one in urgent:
            seen = observations[one.threshold.signal]
            found.setdefault(_CONDITIONS[one.threshold.signal], self._new_shortage(one, seen))
        self._shortages = dict(sorted(found.items(), key=lambda pair: pair[0] != MEMORY))
        return self._shortages

    def update(self, observations: Mapping[str, SignalObservation]) -> None:
        """Record a measurement that evictions follow from."""
        self.observe(observations)
        self._is_acted_on = False

    def _is_met(self, rule: _Rule, observations: Mapping[str, SignalObservation]) -> bool:
        seen = observations.get(rule.threshold.signal)
        if seen is None:
            return False
        least = rule.threshold.quantity(seen.capacity)
        reclaim = self._policy.min_reclaims.get(rule.threshold.signal)
        if rule in self._urgent and reclaim is not None:
            least += reclaim.quantity(seen.capacity)
        return seen.available < least

    def _new_shortage(self, rule: _Rule, seen: SignalObservation) -> Shortage:
        signal = rule.threshold.signal
        is_bytes = signal.endswith("s.available") or signal == "memory.available"
        format = QuantityFormat.BINARY_SI if is_bytes else QuantityFormat.DECIMAL_SI
        least = Quantity.of(rule.threshold.quantity(seen.capacity), format)
        grace = self._policy.max_pod_grace_seconds if rule.is_soft else None
        return Shortage(least, Quantity.of(seen.available, format), grace)

    def mark(self, conditions: Iterable[str]) -> None:
        """Make conditions true for the transition period, without an eviction."""
        self._last_met |= dict.fromkeys(conditions, self._clock.monotonic())

    def conditions(self) -> list[str]:
        """Return the pressure conditions that are true, also for the transition period after their cause."""
        now = self._clock.monotonic()
        return [type for type, at in self._last_met.items() if now - at < self._policy.transition_seconds]

    def take_urgent_condition(self) -> str | None:
        """Return the condition that requires an eviction; at most one for each measurement."""
        if self._is_acted_on:
            return None
        self._is_acted_on = True
        return next(iter(self._shortages), None)

    def shortage(self, condition: str) -> Shortage | None:
        """Return the numbers of a condition in the last measurement."""
        return self._shortages.get(condition)
