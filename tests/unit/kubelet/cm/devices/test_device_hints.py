# SPDX-License-Identifier: Apache-2.0
"""Topology hints of devices."""

from __future__ import annotations

from collections.abc import Iterable

from kubeloop.kubelet.cm.devices.device_hints import device_hints
from kubeloop.kubelet.cm.topology.hints import TopologyHint
from tests.unit.kubelet.cm.devices.fakes import device

DEVICES = {one.id: one for one in (device("a", 0), device("b", 0), device("c", 1), device("d", 1))}


def hints(
    available: str, request: int, reusable: str = "", nodes: tuple[int, ...] = (0, 1)
) -> list[tuple[list[int], bool]]:
    return plain(device_hints(DEVICES, frozenset(available.split()), frozenset(reusable.split()), request, nodes))


def plain(found: Iterable[TopologyHint]) -> list[tuple[list[int], bool]]:
    return [(sorted(one.affinity or ()), one.preferred) for one in found]


def test_the_smallest_sets_are_preferred() -> None:
    assert hints("a b c d", 1) == [([0], True), ([1], True), ([0, 1], False)]
    assert hints("a b c d", 3) == [([0, 1], True)]


def test_devices_in_use_make_larger_sets_possible_but_not_preferred() -> None:
    assert hints("a c", 2) == [([0, 1], False)]
    assert hints("a", 1) == [([0], True), ([0, 1], False)]
    assert hints("a", 2) == []


def test_a_set_has_all_reusable_devices() -> None:
    assert hints("b c d", 2, reusable="a") == [([0], True), ([0, 1], False)]


def test_only_nodes_of_the_machine_with_devices_are_tried() -> None:
    assert hints("a b c d", 1, nodes=(0, 1, 2, 3)) == [([0], True), ([1], True), ([0, 1], False)]
    assert hints("a b c d", 1, nodes=(1,)) == [([1], True)]


def test_a_device_at_two_nodes_counts_for_both() -> None:
    both = {"x": device("x", 0, 1)}
    assert plain(device_hints(both, {"x"}, set(), 1, (0, 1))) == [([0], True), ([1], True), ([0, 1], False)]
