# SPDX-License-Identifier: Apache-2.0
"""Tests of the system clock."""

from __future__ import annotations

import time

import pytest

from kubeloop.clock import SystemClock
from tests.skips import NEEDS_LINUX


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason=f"{NEEDS_LINUX}: no CLOCK_BOOTTIME elsewhere")
def test_suspended_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = SystemClock().monotonic()
    asked: list[int] = []

    def slept(clock: int) -> float:
        asked.append(clock)
        return before + (3600.0 if clock == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", slept)
    assert SystemClock().monotonic() == before + 3600
    assert asked == [time.CLOCK_BOOTTIME]


def test_clock_is_monotonic() -> None:
    clock = SystemClock()
    moments = [clock.monotonic() for _ in range(1000)]
    assert moments == sorted(moments)
