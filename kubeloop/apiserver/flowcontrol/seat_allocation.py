# SPDX-License-Identifier: Apache-2.0
"""Allocation of seats to priority levels: by shares, then by demand and lendable seats. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kubeloop.apiserver.flowcontrol.config import PriorityLevelConfig

_STEPS = 50  # of bisection: precise far below a seat


class SeatBounds(NamedTuple):
    """Seats of a level: nominal (by shares), minimum and maximum."""

    nominal: int
    lower: int
    upper: int


class SeatDemand(NamedTuple):
    """Recent demand of a level in seats: the peak, and a smoothed average."""

    peak: int
    smoothed: float


class SeatAllocation(NamedTuple):
    """Seats of the levels, the seats that they should have had, and the fraction of these that there was."""

    limits: dict[str, int]
    targets: dict[str, float]
    fraction: float


def bounds_of(levels: Mapping[str, PriorityLevelConfig], seats: int) -> dict[str, SeatBounds]:
    """Distribute the server's seats by shares."""
    whole = sum(one.shares for one in levels.values()) or 1
    return {name: _bounds(one, math.ceil(seats * one.shares / whole), seats) for name, one in levels.items()}


def _bounds(level: PriorityLevelConfig, nominal: int, seats: int) -> SeatBounds:
    lendable = round(nominal * level.lendable_percent / 100)
    percent = level.borrowing_percent
    borrowable = seats if percent is None else round(nominal * percent / 100)
    return SeatBounds(nominal, nominal - lendable, nominal + borrowable)


def allocate_seats(bounds: Mapping[str, SeatBounds], needs: Mapping[str, SeatDemand], seats: int) -> SeatAllocation:
    """Return the levels' seats for the next period: lower bounds, used nominal seats, and the rest by demand."""
    floors = {name: max(one.lower, min(one.nominal, needs[name].peak)) for name, one in bounds.items()}
    wanted = {name: max(float(floors[name]), needs[name].smoothed) for name in bounds}
    fraction, found = _fair([(wanted[name], floors[name], bounds[name].upper) for name in bounds], seats)
    limits = {name: max(1, seats_of) for name, seats_of in zip(bounds, found, strict=True)}
    return SeatAllocation(limits, wanted, fraction)


def _fair(items: Sequence[tuple[float, int, int]], seats: int) -> tuple[float, list[int]]:
    """Return a fraction, and that fraction of each demand within bounds, such that the seats are used up."""

    def at(fraction: float) -> list[float]:
        return [min(max(fraction * wanted, lower), upper) for wanted, lower, upper in items]

    low, high = 0.0, float(seats) + 1
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(at(middle)) <= seats else (low, middle)
    return low, [round(one) for one in at(low)]
