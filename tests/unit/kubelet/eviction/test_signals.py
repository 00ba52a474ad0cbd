# SPDX-License-Identifier: Apache-2.0
"""Thresholds of real nodes, and the pressure conditions that measurements give."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random

import pytest

from kubeloop.kubelet.cri.eviction_monitor import EvictionMonitor, observe_signals
from kubeloop.kubelet.cri.stats.collector import CollectedStats
from kubeloop.kubelet.cri.stats.summary import (
    FsStats,
    MemoryStats,
    NodeStatsSummary,
    RlimitStats,
    RuntimeStats,
    StatsSummary,
)
from kubeloop.kubelet.eviction.signals import (
    DEFAULT_EVICTION_HARD,
    SignalObservation,
    SignalTracker,
    parse_eviction_hard,
)

_MIB = 1 << 20
_PLENTY = {
    "memory.available": SignalObservation(1000 * _MIB, 4000 * _MIB),
    "nodefs.available": SignalObservation(50, 100),
    "nodefs.inodesFree": SignalObservation(50, 100),
    "imagefs.available": SignalObservation(50, 100),
    "imagefs.inodesFree": SignalObservation(50, 100),
    "pid.available": SignalObservation(1, 100),
}


class FakeClock:
    """Clock that the test advances."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds

    def random(self) -> Random:
        return Random(0)


def tracker_of(text: str = DEFAULT_EVICTION_HARD) -> tuple[SignalTracker, FakeClock]:
    clock = FakeClock()
    return SignalTracker(clock, parse_eviction_hard(text)), clock


@pytest.mark.parametrize(
    ("signal", "least", "capacity", "condition"),
    [
        ("memory.available", 100 * _MIB, 4000 * _MIB, "MemoryPressure"),
        ("nodefs.available", 100, 1000, "DiskPressure"),
        ("nodefs.inodesFree", 50, 1000, "DiskPressure"),
        ("imagefs.available", 150, 1000, "DiskPressure"),
        ("imagefs.inodesFree", 50, 1000, "DiskPressure"),
    ],
)
def test_default_thresholds_are_met_below_their_values(signal: str, least: int, capacity: int, condition: str) -> None:
    tracker, _ = tracker_of()
    tracker.update({**_PLENTY, signal: SignalObservation(least, capacity)})
    assert tracker.conditions() == []
    tracker.update({**_PLENTY, signal: SignalObservation(least - 1, capacity)})
    assert tracker.conditions() == [condition]
    shortage = tracker.shortage(condition)
    assert shortage is not None
    assert (shortage.threshold.value(), shortage.available.value()) == (least, least - 1)


def test_condition_lasts_for_the_transition_period() -> None:
    tracker, clock = tracker_of()
    tracker.update({"memory.available": SignalObservation(1, 1000)})
    clock.seconds = 10.0
    tracker.update(_PLENTY)
    assert (tracker.conditions(), tracker.take_urgent_condition()) == (["MemoryPressure"], None)
    clock.seconds = 299.0
    assert tracker.conditions() == ["MemoryPressure"]
    clock.seconds = 300.0
    assert tracker.conditions() == []


def test_one_eviction_for_each_measurement_and_memory_first() -> None:
    tracker, _ = tracker_of()
    short = {"nodefs.available": SignalObservation(1, 100), "memory.available": SignalObservation(1, 1000)}
    tracker.update(short)
    assert [tracker.take_urgent_condition() for _ in range(2)] == ["MemoryPressure", None]
    tracker.update(short)
    assert tracker.take_urgent_condition() == "MemoryPressure"


def test_processes_have_a_threshold_only_if_it_is_given() -> None:
    tracker, _ = tracker_of("pid.available<10%")
    tracker.update(_PLENTY)
    assert tracker.conditions() == ["PIDPressure"]


@pytest.mark.parametrize("text", ["memory.available", "memory.available<", "disk<5%", "nodefs.available<101%", "a<b"])
def test_wrong_thresholds_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a|could not"):
        parse_eviction_hard(text)


def test_a_threshold_of_zero_percent_is_off() -> None:
    assert parse_eviction_hard("nodefs.available<0%") == ()


# Measurement.


def summary_of(disk: int) -> StatsSummary:
    fs = FsStats(time="", available_bytes=disk, capacity_bytes=100, inodes_free=0, inodes=0)
    node = NodeStatsSummary(
        node_name="n1",
        start_time="",
        memory=MemoryStats(time="", available_bytes=300 * _MIB, working_set_bytes=100 * _MIB),
        fs=fs,
        runtime=RuntimeStats(image_fs=fs),
        rlimit=RlimitStats(time="", maxpid=100, curproc=40),
    )
    return StatsSummary(node=node)


class FakeNode:
    """Node whose garbage takes some of the disk."""

    def __init__(self, free: int, garbage: int) -> None:
        self.free, self.garbage = free, garbage
        self.calls: list[str] = []

    async def refresh(self, max_age: float = 10.0) -> CollectedStats:
        return CollectedStats(summary_of(self.free), datetime(2030, 1, 1, tzinfo=UTC), {})

    async def remove_dead_containers(self, is_running: Callable[[str], bool]) -> None:
        self.calls.append("containers")

    async def delete_unused(self) -> None:
        self.calls.append("images")
        self.free += self.garbage


def test_signals_of_a_node() -> None:
    assert dict(observe_signals(summary_of(7).node)) == {
        "memory.available": SignalObservation(300 * _MIB, 400 * _MIB),
        "nodefs.available": SignalObservation(7, 100),
        "imagefs.available": SignalObservation(7, 100),
        "pid.available": SignalObservation(60, 100),
    }


@pytest.mark.parametrize(
    ("free", "garbage", "calls", "conditions", "urgent"),
    [
        (50, 0, [], [], None),
        (5, 50, ["containers", "images"], ["DiskPressure"], None),
        (5, 1, ["containers", "images"], ["DiskPressure"], "DiskPressure"),
    ],
)
def test_disk_space_is_freed_before_pods_are_evicted(
    free: int, garbage: int, calls: list[str], conditions: list[str], urgent: str | None
) -> None:
    node = FakeNode(free, garbage)
    tracker, _ = tracker_of()
    asyncio.run(EvictionMonitor(node, tracker, node, node, list).measure())
    assert (node.calls, tracker.conditions(), tracker.take_urgent_condition()) == (calls, conditions, urgent)
