# SPDX-License-Identifier: Apache-2.0
"""Options of a query string are parsed as Go parses them."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api.errors import BadRequest
from kubeloop.apiserver.request.list_options import parse_revision
from kubeloop.apiserver.request.query import Query


@pytest.mark.parametrize(("text", "number"), [("5", 5), ("-5", -5), ("%2B5", 5), ("0007", 7), ("0" * 9_000 + "1", 1)])
def test_integers(text: str, number: int) -> None:
    assert Query(f"limit={text}").integer("limit") == number


@pytest.mark.parametrize("text", ["", "-+5", "+-5", "--5", "-", "+", "1_0", "\u00b2", "\u0665", "0x1", " 5", "5 "])
def test_what_is_no_integer_is_a_bad_request(text: str) -> None:
    query = Query.from_options({"limit": text})
    with pytest.raises(BadRequest, match="invalid syntax"):
        query.integer("limit")


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "9" * 5_000, "-" + "9" * 5_000])
def test_an_integer_of_any_length_may_be_out_of_range(text: str) -> None:
    with pytest.raises(BadRequest, match="value out of range"):
        Query.from_options({"limit": text}).integer("limit")


def test_a_revision_of_any_length_may_be_out_of_range() -> None:
    assert parse_revision("0" * 5_000 + "7") == 7
    with pytest.raises(ValueError, match="value out of range"):
        parse_revision("9" * 5_000)


@given(st.text("ab=&+%2541 \u00e9;"))
def test_options_are_separated_and_unescaped(text: str) -> None:
    expected = parse_qsl(text, keep_blank_values=True)
    query = Query(text)
    for name, _ in expected:
        assert query.values(name) == tuple(value for other, value in expected if other == name)
        assert query.text(name) == query.values(name)[0]
    assert bool(query) == bool(expected)


def test_a_query_with_too_many_parameters_has_none() -> None:
    assert not Query("limit=1" + "&a=b" * 10_000)
    assert Query("limit=1" + "&a=b" * 9_999).integer("limit") == 1
