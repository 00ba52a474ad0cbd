# SPDX-License-Identifier: Apache-2.0
"""Tests of the attributes that constraints compare: lists, and those that requests derive."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.scheduler.dra.allocator import AllocationError
from tests.unit.scheduler.dra.device_claims import claim_of, exactly, given, one_of, slice_of

LISTS = "DRAListTypeAttributes=true"
DERIVED = "DRADerivedAttributes=true"
NUMA = 'device.attributes["gpu.example.com"]'


def device(name: str, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "attributes": {key.rstrip("_"): value for key, value in attributes.items()}}


def matching(*requests: dict[str, Any], **constraint: Any) -> Any:
    said = constraint or {"matchAttribute": "gpu.example.com/zone"}
    return claim_of(*requests, constraints=[said])


@pytest.mark.parametrize(
    ("first", "second", "match", "distinct"),
    [
        ({"strings": ["a", "b"]}, {"strings": ["b", "c"]}, True, False),
        ({"strings": ["a"]}, {"strings": ["b"]}, False, True),
        ({"strings": ["a", "b"]}, {"string": "b"}, True, False),
        ({"ints": [1]}, {"strings": ["1"]}, False, True),
        ({"versions": ["1.0.0"]}, {"version": "1.0.0"}, True, False),
        ({"bools": [True]}, {"bools": [True, False]}, True, False),
    ],
)
def test_lists_match_by_a_common_value_and_are_distinct_without_one(
    first: Any, second: Any, match: bool, distinct: bool
) -> None:
    slices = [slice_of([device("x", zone=first), device("y", zone=second)])]
    both = [["x", "y"]]
    assert given(slices, matching(exactly(count=2)), gates=LISTS) == (both if match else None)
    asked = matching(exactly(count=2), distinctAttribute="gpu.example.com/zone")
    assert given(slices, asked, gates=LISTS) == (both if distinct else None)


def test_three_lists_need_one_value_in_common() -> None:
    zones = (["a", "b"], ["b", "c"], ["a", "c"])
    slices = [slice_of([device(f"d{index}", zone={"strings": one}) for index, one in enumerate(zones)])]
    assert given(slices, matching(exactly(count=2)), gates=LISTS) == [["d0", "d1"]]
    assert given(slices, matching(exactly(count=3)), gates=LISTS) is None


def test_lists_are_not_compared_without_the_feature() -> None:
    slices = [slice_of([device("x", zone={"strings": ["a"]}), device("y", zone={"strings": ["a"]})])]
    assert given(slices, matching(exactly(count=2))) is None


def derived(expression: str, name: str = "gpu.example.com/zone") -> list[dict[str, str]]:
    return [{"name": name, "expression": expression}]


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        (f"{NUMA}.index / 2", [["d0", "d1"]]),
        (f"{NUMA}.index % 2 == 0", [["d0", "d2"]]),
        (f"string({NUMA}.index)", None),
        ("semver('1.2.3-a.1')", [["d0", "d1"]]),
    ],
)
def test_a_request_derives_an_attribute_that_a_constraint_compares(
    expression: str, found: list[list[str]] | None
) -> None:
    slices = [slice_of([device(f"d{one}", index={"int": one}) for one in range(3)])]
    asked = matching(exactly(count=2, derivedAttributes=derived(expression)))
    assert given(slices, asked, gates=DERIVED) == found


def test_a_derived_attribute_hides_the_published_one() -> None:
    slices = [slice_of([device("x", zone={"string": "a"}), device("y", zone={"string": "b"})])]
    assert given(slices, matching(exactly(count=2)), gates=DERIVED) is None
    asked = matching(exactly(count=2, derivedAttributes=derived("'same'")))
    assert given(slices, asked, gates=DERIVED) == [["x", "y"]]


def test_derived_lists_and_alternatives_are_compared() -> None:
    slices = [slice_of([device(f"d{one}", index={"int": one}) for one in range(3)])]
    alternative = exactly("a", 2, derivedAttributes=derived(f"[{NUMA}.index + 0, {NUMA}.index + 2]"))
    asked = matching(one_of("r", alternative))
    assert given(slices, asked, gates=f"{DERIVED},{LISTS}") == [["d0", "d2"]]


@pytest.mark.parametrize(
    ("gates", "expression", "message"),
    [
        ("", "1", "cannot handle request with derived attributes, the feature is disabled"),
        (DERIVED, f"{NUMA}.none", "evaluate derived attribute gpu.example.com/zone on device .* no such key: none"),
        (DERIVED, "dyn({'a': 1})", "unsupported CEL return type"),
    ],
)
def test_an_attribute_that_cannot_be_derived_is_an_error(gates: str, expression: str, message: str) -> None:
    asked = matching(exactly(count=2, derivedAttributes=derived(expression)))
    with pytest.raises(AllocationError, match=message):
        given([slice_of([device("x"), device("y")])], asked, gates=gates)
