# SPDX-License-Identifier: Apache-2.0
"""Tests of the system clock."""

from __future__ import annotations

import time
from functools import partial

import pytest

from kubeloop.clock import SystemClock
from tests.skips import NEEDS_LINUX


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason=f"{NEEDS_LINUX}: no CLOCK_BOOTTIME elsewhere")
def test_suspended_time_counts() -> None:
    """The clock is a function of the system without a frame of ours: its argument is the clock that is read."""
    monotonic = SystemClock.monotonic
    assert isinstance(monotonic, partial)
    assert (monotonic.func, monotonic.args) == (time.clock_gettime, (time.CLOCK_BOOTTIME,))


def test_clock_is_monotonic() -> None:
    clock = SystemClock()
    moments = [clock.monotonic() for _ in range(1000)]
    assert moments == sorted(moments)
