# SPDX-License-Identifier: Apache-2.0
"""Selection of devices: reusable, aligned, preferred and other ones."""

from __future__ import annotations

import asyncio
from collections.abc import Set

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.kubelet.cm.devices.selection import (
    DeviceSelection,
    DeviceShortage,
    partition_by_affinity,
    select_devices,
)
from tests.unit.kubelet.cm.devices.fakes import device

DEVICES = {one.id: one for one in (device("a0", 0), device("b0", 0), device("c1", 1), device("d1", 1), device("e"))}


class Preference:
    """Plugin that prefers devices, and records what it was asked."""

    def __init__(self, *preferred: str) -> None:
        self.preferred = frozenset(preferred)
        self.asked: list[tuple[list[str], list[str]]] = []

    async def __call__(self, available: Set[str], included: Set[str]) -> Set[str] | None:
        self.asked.append((sorted(available), sorted(included)))
        return self.preferred or None


def select(
    required: int,
    available: str,
    preference: Preference | None = None,
    reusable: str = "",
    affinity: Set[int] | None = None,
) -> list[str]:
    request = DeviceSelection(
        "example.com/widget",
        required,
        DEVICES,
        frozenset(available.split()),
        frozenset(reusable.split()),
        affinity,
    )
    return sorted(asyncio.run(select_devices(request, preference or Preference())))


def test_devices_that_can_be_used_again_come_first() -> None:
    preference = Preference("e")
    assert select(1, "a0 b0 e", preference, reusable="d1") == ["d1"]
    assert preference.asked == []
    assert select(2, "a0 b0 e", preference, reusable="d1") == ["d1", "e"]
    assert preference.asked == [(["a0", "b0", "d1", "e"], ["d1"])]


def test_the_plugin_chooses_among_aligned_devices_if_there_are_more_than_enough() -> None:
    preference = Preference("d1", "e")
    assert select(1, "a0 b0 c1 d1 e", preference, affinity={1}) == ["d1"]
    assert preference.asked == [(["c1", "d1"], [])]
    assert select(1, "a0 b0 c1 d1 e", Preference("e"), affinity={1}) == ["c1"]


def test_all_aligned_devices_are_taken_before_the_plugin_is_asked() -> None:
    preference = Preference("e")
    assert select(2, "a0 b0 c1 d1 e", preference, affinity={1}) == ["c1", "d1"]
    assert preference.asked == []
    assert select(3, "a0 b0 c1 d1 e", preference, affinity={1}) == ["c1", "d1", "e"]
    assert preference.asked == [(["a0", "b0", "c1", "d1", "e"], ["c1", "d1"])]


def test_devices_of_other_nodes_come_before_those_without_node() -> None:
    assert select(3, "b0 c1 d1 e", affinity={1}) == ["b0", "c1", "d1"]
    assert select(4, "b0 c1 d1 e", affinity={1}) == ["b0", "c1", "d1", "e"]


def test_too_few_devices_are_refused() -> None:
    with pytest.raises(DeviceShortage) as raised:
        select(3, "a0", reusable="e")
    assert str(raised.value) == (
        "requested number of devices unavailable for example.com/widget. Requested: 2, Available: 1"
    )


def test_without_affinity_or_nodes_nothing_is_aligned() -> None:
    everything = frozenset(DEVICES)
    assert partition_by_affinity(DEVICES, everything, None) == (frozenset(), frozenset(), everything)
    plain = {"x": device("x")}
    assert partition_by_affinity(plain, {"x"}, {0}) == (frozenset(), frozenset(), {"x"})
    assert partition_by_affinity(DEVICES, everything, {0}) == ({"a0", "b0"}, {"c1", "d1"}, {"e"})


some = st.frozensets(st.sampled_from(sorted(DEVICES)))


@given(st.integers(1, 5), some, some, some, st.none() | st.frozensets(st.integers(0, 1), min_size=1))
def test_a_selection_has_the_right_size_and_only_allowed_devices(
    required: int, available: Set[str], reusable: Set[str], preferred: Set[str], affinity: Set[int] | None
) -> None:
    reusable = reusable - available
    request = DeviceSelection("r", required, DEVICES, available, reusable, affinity)
    if len(available | reusable) < required:
        with pytest.raises(DeviceShortage):
            asyncio.run(select_devices(request, Preference(*preferred)))
        return
    chosen = asyncio.run(select_devices(request, Preference(*preferred)))
    assert len(chosen) == required
    assert chosen <= available | reusable
    assert len(chosen & reusable) == min(required, len(reusable))
    aligned, _, _ = partition_by_affinity(DEVICES, available, affinity)
    assert len(chosen & aligned) == min(required - len(chosen & reusable), len(aligned)) or not aligned
