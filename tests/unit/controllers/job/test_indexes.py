# SPDX-License-Identifier: Apache-2.0
"""Sets of completion indexes and their text."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.controllers.job.indexes import Indexes

some = st.sets(st.integers(0, 60))


@pytest.mark.parametrize(
    ("text", "completions", "expected"),
    [
        ("", 5, ""),
        ("1", 5, "1"),
        ("0,1,2", 5, "0-2"),
        ("0-3,7", 10, "0-3,7"),
        ("0,3-9", 6, "0,3-5"),
        ("0,7-9", 6, "0"),
        ("0,a,3-b,5", 6, "0,5"),
        ("1,2", 5, "1,2"),
        ("0,1-3", 5, "0-3"),
    ],
)
def test_text_is_parsed_as_far_as_valid(text: str, completions: int, expected: str) -> None:
    assert str(Indexes.parse(text, completions)) == expected


@given(some)
def test_formatting_round_trips(indexes: set[int]) -> None:
    written = Indexes.of(indexes)
    assert Indexes.parse(str(written), 61) == written
    assert {one for one in range(61) if one in written} == indexes
    assert len(written) == len(indexes)


@given(some, some)
def test_union_and_comparison_are_set_operations(one: set[int], other: set[int]) -> None:
    joined = Indexes.of(one) | Indexes.of(other)
    assert joined == Indexes.of(one | other)
    assert Indexes.of(one).count_common(Indexes.of(other)) == len(one & other)


@given(some, st.integers(0, 70), st.integers(0, 10))
def test_missing_indexes_are_found_in_order(indexes: set[int], completions: int, count: int) -> None:
    expected = [one for one in range(completions) if one not in indexes][:count]
    assert list(islice(Indexes.of(indexes).missing(completions), count)) == expected
