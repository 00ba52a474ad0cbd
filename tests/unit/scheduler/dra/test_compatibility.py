# SPDX-License-Identifier: Apache-2.0
"""Tests of compatibility groups: devices of one counter set are allocated together only if they share a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kubeloop.api.generated.resource_v1 import ResourceSlice
from kubeloop.scheduler.dra.compatibility import CommonGroups, add_groups
from tests.unit.scheduler.dra.device_claims import cel, claim_of, exactly, given, in_use, slice_of

GATE = "DRADeviceCompatibilityGroups=true"


def partition(name: str, *groups: str) -> dict[str, Any]:
    use = {"counterSet": "chip", "counters": {"cores": {"value": "1"}}, "compatibilityGroups": list(groups)}
    return {"name": name, "consumesCounters": [use], "attributes": {"name": {"string": name}}}


def chip(*partitions: dict[str, Any], cores: int = 9) -> list[ResourceSlice]:
    counters = [{"name": "chip", "counters": {"cores": {"value": str(cores)}}}]
    return [slice_of(partitions, "a", count=2), slice_of((), "b", count=2, sharedCounters=counters)]


def named(*names: str) -> list[dict[str, Any]]:
    return [exactly(one, selectors=cel(f'device.attributes["gpu.example.com"].name == "{one}"')) for one in names]


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (["a"], ["a"], True),
        (["a", "b"], ["b"], True),
        (["a"], ["b"], False),
        ([], [], True),
        (["a"], [], False),
        ([], ["a"], False),
    ],
)
def test_devices_go_together_if_they_share_a_group(first: Sequence[str], second: Sequence[str], together: bool) -> None:
    slices = chip(partition("x", *first), partition("y", *second))
    assert given(slices, claim_of(*named("x", "y")), gates=GATE) == ([["x", "y"]] if together else None)
    assert given(slices, claim_of(*named("y")), use=in_use("x"), gates=GATE) == ([["y"]] if together else None)


def test_all_devices_share_one_group() -> None:
    slices = chip(partition("x", "a", "b"), partition("y", "b", "c"), partition("z", "a", "c"))
    assert given(slices, claim_of(*named("x", "y")), gates=GATE) == [["x", "y"]]
    assert given(slices, claim_of(*named("x", "y", "z")), gates=GATE) is None


def test_the_search_goes_back_to_a_compatible_device() -> None:
    slices = chip(partition("x", "a"), partition("y", "b"), partition("z", "b"))
    assert given(slices, claim_of(exactly(count=2)), gates=GATE) == [["y", "z"]]


def test_groups_of_other_counter_sets_do_not_matter() -> None:
    other = partition("y", "b")
    other["consumesCounters"][0]["counterSet"] = "other"
    counters = [{"name": name, "counters": {"cores": {"value": "9"}}} for name in ("chip", "other")]
    devices = slice_of((partition("x", "a"), other), "a", count=2)
    slices = [devices, slice_of((), "b", count=2, sharedCounters=counters)]
    assert given(slices, claim_of(*named("x", "y")), gates=GATE) == [["x", "y"]]


def test_a_pool_with_groups_offers_nothing_without_the_feature() -> None:
    slices = [*chip(partition("x", "a")), slice_of([{"name": "plain"}], "c", "q")]
    assert given(slices, claim_of(exactly())) == [["plain"]]


def test_groups_that_changed_meanwhile_admit_nothing() -> None:
    common = add_groups(CommonGroups(frozenset("a"), False), frozenset("b"))
    assert not common.admits(frozenset())
    assert not common.admits(frozenset("a"))
