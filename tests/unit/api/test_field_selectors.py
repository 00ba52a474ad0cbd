# SPDX-License-Identifier: Apache-2.0
"""Field selectors parse, print, complain and match as upstream's."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.field_selectors import (
    FieldRequirement,
    FieldSelector,
    escape_value,
    parse_field_selector,
    unescape_value,
)
from kubeloop.api.selectors import Operator, SelectorError

POD = {"metadata.name": "p1", "status.phase": "Pending"}


def value_of(field: str) -> str:
    return POD.get(field, "")


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        (",", True),
        ("=", True),
        ("metadata.name=p1", True),
        ("metadata.name==p1", True),
        ("metadata.name!=p1", False),
        ("spec.nodeName=", True),
        ("metadata.name=p1,status.phase!=Pending", False),
        ("metadata.name=p1,,status.phase=Pending", True),
    ],
)
def test_selector_matches_fields(text: str, matches: bool) -> None:
    assert parse_field_selector(text).matches(value_of) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("b=1,a>3", "invalid selector: 'b=1,a>3'; can't understand 'a>3'"),
        ("a=b\\c", "invalid field selector: invalid escape sequence: \\c"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_invalid_selector_reports_upstreams_message(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_field_selector(text)
    assert str(caught.value) == message


def test_escaped_commas_and_equals_signs_belong_to_the_value() -> None:
    selector = parse_field_selector(r"a=x\,y\=z\\")
    assert selector.requirements == (FieldRequirement("a", Operator.EQUALS, "x,y=z\\"),)


def test_exact_value_of_a_field_is_found() -> None:
    selector = parse_field_selector("a!=1,b=2,b!=3")
    assert selector.requires_exact_match("a") is None
    assert selector.requires_exact_match("b") == "2"
    assert selector.requires_exact_match("c") is None


def test_requirements_can_be_rewritten_and_dropped() -> None:
    def rename(field: str, value: str) -> tuple[str, str]:
        return ("", "") if field == "drop" else (field.upper(), value)

    assert str(parse_field_selector("drop=1,keep!=2").transform(rename)) == "KEEP!=2"


@given(st.text())
def test_escaping_round_trips(value: str) -> None:
    assert unescape_value(escape_value(value)) == value


field_names = st.from_regex(r"\A[a-z]{1,5}(\.[a-z]{1,5})?\Z")
requirements = st.builds(
    FieldRequirement, field_names, st.sampled_from([Operator.EQUALS, Operator.NOT_EQUALS]), st.text(max_size=6)
)


@settings(max_examples=100)
@given(st.lists(requirements, max_size=4))
def test_formatted_selector_round_trips(chosen: list[FieldRequirement]) -> None:
    parsed = parse_field_selector(str(FieldSelector(tuple(chosen))))
    assert sorted(map(str, parsed.requirements)) == sorted(map(str, chosen))
