# SPDX-License-Identifier: Apache-2.0
"""Tests of offloaded device searches: they block nothing, and are not repeated needlessly."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import Node
from kubeloop.clock import SystemClock
from kubeloop.scheduler.framework.plugin import PluginTimeLimitExceeded
from kubeloop.scheduler.plugins.dynamic_resources import DynamicResources
from tests.unit.scheduler.dra.device_claims import DRIVER, claim_of, device_class, exactly, slice_of
from tests.unit.scheduler.plugins.test_dynamic_resources import holding, pod_with
from tests.unit.scheduler.random_clusters import RandomCluster

AT_ONCE = 5.0


class SteppingClock(SystemClock):
    """Clock that advances a second on each read."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += 1
        return self.seconds


def never() -> bool:
    return False


class DeviceSearch:
    """Plugin that is called repeatedly for a pod with an expensive device search."""

    def __init__(self, at_once: float) -> None:
        self.env = RandomCluster()
        for name in ("n1", "n2"):
            self.env.add_node(from_plain({"metadata": {"name": name}, "status": {"allocatable": {"pods": "9"}}}, Node))
        self.env.add(device_class(), slice_of([{"name": f"d{number}"} for number in range(6)]))
        self.env.add(claim_of(exactly(count=6)))
        self.env.around.clock = SteppingClock()
        self.env.around.plugin_time_limit.set_limit(at_once)
        self.plugin: Any = self.env.plugin(DynamicResources, {"filterTimeout": "10m"})

    def answers(self) -> list[str]:
        state = self.plugin.pre_filter(self.env.info(pod_with("c")), self.env.cluster)
        found = self.plugin.filter(state, self.env.cluster, self.env.cluster.rows_in_use())
        return [self.plugin.filter_status(state, int(one)).message if one else "" for one in found]

    def answers_in_the_end(self) -> list[str]:
        while True:
            try:
                return self.answers()
            except PluginTimeLimitExceeded as slow:
                slow.work(never)

    def slow(self) -> PluginTimeLimitExceeded:
        with pytest.raises(PluginTimeLimitExceeded) as raised:
            self.answers()
        return raised.value


def test_search_within_its_budget_is_synchronous() -> None:
    assert DeviceSearch(at_once=1000.0).answers() == ["", "cannot allocate all claims"]


def test_offloaded_result_is_used_in_the_next_attempt() -> None:
    asked = DeviceSearch(AT_ONCE)
    asked.slow().work(never)
    began = asked.env.around.clock.seconds
    assert asked.answers() == ["", "cannot allocate all claims"]
    assert asked.env.around.clock.seconds - began < AT_ONCE


def test_devices_allocated_meanwhile_are_excluded() -> None:
    asked = DeviceSearch(AT_ONCE)
    slow = asked.slow()
    result = {"request": "r", "driver": DRIVER, "pool": "p", "device": "d0"}
    asked.env.add(holding("other", devices={"results": [result]}))
    slow.work(never)
    assert asked.answers_in_the_end() == ["cannot allocate all claims"] * 2


def test_search_runs_synchronously_if_state_changes_too_often() -> None:
    asked = DeviceSearch(AT_ONCE)
    for number in range(4):
        asked.slow().work(never)
        asked.env.add(holding(f"other-{number}", devices={"results": []}))
        result = {"request": "r", "driver": "another", "pool": "n1", "device": f"d{number}"}
        asked.env.add(holding(f"more-{number}", devices={"results": [result]}))
    assert asked.answers() == ["", "cannot allocate all claims"]


def test_obsolete_search_is_cancelled() -> None:
    asked = DeviceSearch(AT_ONCE)
    asked.slow().work(lambda: True)
    asked.slow()
