# SPDX-License-Identifier: Apache-2.0
"""Thresholds of real nodes, and the pressure conditions that measurements give."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random

import pytest

from kubeloop.api.generated.core_v1 import Pod, PodSpec
from kubeloop.api.scalars.quantity import Quantity, QuantityFormat
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration
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
from kubeloop.kubelet.eviction.eviction_rank import eviction_grace_seconds
from kubeloop.kubelet.eviction.signals import (
    SignalObservation,
    SignalTracker,
    eviction_policy_of,
    parse_eviction_hard,
)
from kubeloop.kubelet.eviction.thresholds import Shortage
from kubeloop.runtime.component_config import ConfigDuration

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


def tracker_of(settings: KubeletConfiguration | None = None) -> tuple[SignalTracker, FakeClock]:
    clock = FakeClock()
    return SignalTracker(clock, eviction_policy_of(settings or KubeletConfiguration())), clock


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
    tracker, _ = tracker_of(KubeletConfiguration(eviction_hard={"pid.available": "10%"}))
    tracker.update(_PLENTY)
    assert tracker.conditions() == ["PIDPressure"]


@pytest.mark.parametrize(("signal", "value"), [("memory.available", ""), ("disk", "5%"), ("nodefs.available", "101%")])
def test_wrong_thresholds_are_errors(signal: str, value: str) -> None:
    with pytest.raises(ValueError, match=r"is not|must match"):
        parse_eviction_hard({signal: value})


def test_a_threshold_of_zero_percent_is_off() -> None:
    assert parse_eviction_hard({"nodefs.available": "0%"}) == ()


SOFT = KubeletConfiguration(
    eviction_hard={"memory.available": "100Mi"},
    eviction_soft={"memory.available": "200Mi"},
    eviction_soft_grace_period={"memory.available": "1m30s"},
    eviction_max_pod_grace_period=20,
    eviction_pressure_transition_period=ConfigDuration(60),
    eviction_minimum_reclaim={"memory.available": "50Mi"},
)


def observe(tracker: SignalTracker, mebibytes: int) -> str | None:
    tracker.update({"memory.available": SignalObservation(mebibytes * _MIB, 4000 * _MIB)})
    return tracker.take_urgent_condition()


def test_a_soft_threshold_evicts_after_its_grace_period() -> None:
    tracker, clock = tracker_of(SOFT)
    assert observe(tracker, 199) is None
    assert tracker.conditions() == ["MemoryPressure"]
    clock.seconds = 89.0
    assert observe(tracker, 199) is None
    clock.seconds = 90.0
    assert observe(tracker, 199) == "MemoryPressure"
    shortage = tracker.shortage("MemoryPressure")
    assert shortage is not None
    assert (str(shortage.threshold), shortage.max_grace_seconds) == ("200Mi", 20)


def test_the_grace_period_begins_again_when_a_soft_threshold_was_not_met() -> None:
    tracker, clock = tracker_of(SOFT)
    observe(tracker, 199)
    clock.seconds = 80.0
    assert observe(tracker, 200) is None
    clock.seconds = 100.0
    assert observe(tracker, 199) is None
    clock.seconds = 161.0
    assert tracker.conditions() == []


def test_a_hard_threshold_evicts_at_once() -> None:
    tracker, _ = tracker_of(SOFT)
    assert observe(tracker, 99) == "MemoryPressure"
    shortage = tracker.shortage("MemoryPressure")
    assert shortage is not None
    assert shortage.max_grace_seconds is None


def test_a_shortage_lasts_until_the_least_amount_is_reclaimed() -> None:
    tracker, _ = tracker_of(SOFT)
    assert observe(tracker, 149) is None
    assert observe(tracker, 99) == "MemoryPressure"
    assert observe(tracker, 149) == "MemoryPressure"
    assert observe(tracker, 150) is None
    assert observe(tracker, 149) is None


@pytest.mark.parametrize(
    ("longest", "own", "expected"), [(20, 30, 20.0), (20, 5, 5.0), (0, 30, 0.0), (-1, 30, None), (20, None, 20.0)]
)
def test_grace_periods_of_pods_that_soft_thresholds_evict(
    longest: int, own: int | None, expected: float | None
) -> None:
    pod = Pod(spec=PodSpec(termination_grace_period_seconds=own))
    amount = Quantity.of(1, QuantityFormat.DECIMAL_SI)
    assert eviction_grace_seconds(pod, Shortage(amount, amount, longest)) == expected
    assert eviction_grace_seconds(pod, Shortage(amount, amount)) == 1.0


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            KubeletConfiguration(eviction_soft={"memory.available": "1Gi"}),
            "grace period must be specified for the soft",
        ),
        (KubeletConfiguration(eviction_soft_grace_period={"memory.available": "-1s"}), "must be a positive value"),
        (KubeletConfiguration(eviction_soft_grace_period={"disk": "1s"}), "eviction signal disk is not known"),
        (KubeletConfiguration(eviction_minimum_reclaim={"disk": "1"}), "eviction signal disk is not known"),
    ],
)
def test_wrong_policies_are_errors(settings: KubeletConfiguration, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        eviction_policy_of(settings)


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
