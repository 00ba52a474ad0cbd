# SPDX-License-Identifier: Apache-2.0
"""Label selectors parse, print, complain and match as upstream's."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.meta.field_path import FieldPath
from kubeloop.api.selectors import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    Operator,
    Requirement,
    SelectorError,
    label_selector_as_selector,
    new_requirement,
    parse_label_selector,
    selector_from_set,
    validate_label_selector,
)

A = {"app": "x", "tier": "1"}
B = {"app": "y"}
C: dict[str, str] = {}


@pytest.mark.parametrize(
    ("text", "matching"),
    [
        ("app=x", [A]),
        ("app==y", [B]),
        ("app!=x", [B, C]),
        ("app in (x,y)", [A, B]),
        ("app notin (x)", [B, C]),
        ("app", [A, B]),
        ("!app", [C]),
        ("! app", [C]),
        ("app,tier=1", [A]),
        ("app in ()", []),
        ("app in (,x)", [A]),
        ("tier>0", [A]),
        ("tier<1", []),
        ("app>0", []),
        ("app=", []),
        ("", [A, B, C]),
        ("  ", [A, B, C]),
        ("in,notin", []),
        ("app in (in)", []),
    ],
)
def test_selector_matches_labels(text: str, matching: list[dict[str, str]]) -> None:
    assert [labels for labels in (A, B, C) if parse_label_selector(text).matches(labels)] == matching


NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
OPERATORS = "in, notin, =, ==, !=, gt, lt"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("app in x", "unable to parse requirement: found 'x' expected: '('"),
        ("app===x", "unable to parse requirement: found '=', expected: identifier"),
        ("a b", f"unable to parse requirement: found 'b', expected: {OPERATORS}"),
        ("app within (x)", f"unable to parse requirement: found 'within', expected: {OPERATORS}"),
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("app=x,", "found '', expected: identifier after ','"),
        ("app=bad value", "found 'value', expected: ',' or 'end of string'"),
        ("!app=x", "found '=', expected: ',' or 'end of string'"),
        ("-bad=x", f'unable to parse requirement: <nil>: Invalid value: "-bad": {NAME_PART}'),
        ("app in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("app in (x y)", "unable to parse requirement: found 'y', expected: ',' or ')'"),
        ("app in (x,=", "unable to parse requirement: found '=', expected: ',', or identifier"),
        ("app in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        (
            "app>x",
            'unable to parse requirement: values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        ("!", "unable to parse requirement: found '', expected: identifier"),
    ],
)
def test_invalid_selector_reports_upstreams_message(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_label_selector(text)
    assert str(caught.value) == message


def test_invalid_value_is_reported_with_its_key() -> None:
    with pytest.raises(
        SelectorError, match=r"^unable to parse requirement: values\[0\]\[app\]: Invalid value: \"-\": a "
    ):
        parse_label_selector("app=-")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("b , a", "a,b"),
        ("x in (b,a,b)", "x in (a,b)"),
        ("x  notin(a)", "x notin (a)"),
        ("!x", "!x"),
        ("x== y", "x==y"),
        ("x!=y", "x!=y"),
        ("x>1,y<2", "x>1,y<2"),
        ("x in ()", "x in ()"),
        ("", ""),
    ],
)
def test_a_selector_prints_in_canonical_form(text: str, canonical: str) -> None:
    assert str(parse_label_selector(text)) == canonical


def test_exact_values_are_offered_to_an_index() -> None:
    selector = parse_label_selector("a=1,b==2,c in (3),d in (4,5),e!=6,f")
    assert selector.exact_matches() == {"a": "1", "b": "2", "c": "3"}


def test_everything_and_nothing_are_opposites() -> None:
    assert EVERYTHING.is_empty
    assert EVERYTHING.matches(None)
    assert not NOTHING.is_empty
    assert not NOTHING.matches(None)
    assert not NOTHING.matches({"": ""})
    assert EVERYTHING != NOTHING


def test_integers_beyond_64_bits_match_no_comparison() -> None:
    assert not parse_label_selector("n>1").matches({"n": "9223372036854775808"})
    assert parse_label_selector("n>1").matches({"n": "9223372036854775807"})


class Expression(msgspec.Struct, frozen=True):
    key: str | None = None
    operator: str | None = None
    values: Sequence[str] | None = None


class Selector(msgspec.Struct, frozen=True):
    match_labels: Mapping[str, str] | None = None
    match_expressions: Sequence[Expression] | None = None


def test_nil_selector_matches_nothing_and_empty_one_everything() -> None:
    assert label_selector_as_selector(None) is NOTHING
    assert label_selector_as_selector(Selector()) is EVERYTHING


def test_selector_combines_labels_and_expressions() -> None:
    expressions = (
        Expression("b", "In", ("y", "x")),
        Expression("c", "NotIn", ("z",)),
        Expression("d", "Exists"),
        Expression("e", "DoesNotExist"),
    )
    selector = label_selector_as_selector(Selector({"a": "1"}, expressions))
    assert str(selector) == "a=1,b in (x,y),c notin (z),d,!e"
    assert selector.matches({"a": "1", "b": "x", "d": ""})


def test_a_selector_object_with_an_unknown_operator_is_refused() -> None:
    with pytest.raises(SelectorError, match=r'^"Gt" is not a valid label selector operator$'):
        label_selector_as_selector(Selector(None, (Expression("a", "Gt", ("1",)),)))


def test_a_set_operator_without_values_is_refused() -> None:
    with pytest.raises(
        SelectorError, match=r"^values: Invalid value: null: for 'in', 'notin' operators, values set can't"
    ):
        new_requirement("a", Operator.IN)


def test_validation_finds_each_problem_of_a_selector_object() -> None:
    expressions = (
        Expression("a", "In"),
        Expression("a", "Exists", ("x",)),
        Expression("a", "Near"),
        Expression("", "Exists"),
        Expression("a", "In", ("-",)),
    )
    found = validate_label_selector(Selector({"k": "v", "-": "v"}, expressions), FieldPath("spec").child("selector"))
    assert [(error.field, error.body().split(" (e.g.")[0]) for error in found] == [
        ("spec.selector.matchLabels", f'Invalid value: "-": {NAME_PART}'.split(" (e.g.")[0]),
        (
            "spec.selector.matchExpressions[0].values",
            "Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            "spec.selector.matchExpressions[1].values",
            "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        ("spec.selector.matchExpressions[2].operator", 'Invalid value: "Near": not a valid selector operator'),
        ("spec.selector.matchExpressions[3].key", 'Invalid value: "": name part must be non-empty'),
        ("spec.selector.matchExpressions[3].key", f'Invalid value: "": {NAME_PART}'.split(" (e.g.")[0]),
        (
            "spec.selector.matchExpressions[4].values[0]",
            'Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '
            "'-', '_' or '.', and must start and end with an alphanumeric character",
        ),
    ]


def test_existing_objects_may_keep_invalid_values() -> None:
    selector = Selector(None, (Expression("a", "In", ("-",)),))
    assert validate_label_selector(selector, FieldPath("s"), allow_invalid_values=True) == []


keys = st.from_regex(r"\A([a-z0-9]{1,5}(\.[a-z]{1,3})?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,5}[A-Za-z0-9])?\Z")
values = st.from_regex(r"\A([A-Za-z0-9]([-A-Za-z0-9_.]{0,5}[A-Za-z0-9])?)?\Z")
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(
        Requirement,
        keys,
        st.sampled_from([Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS]),
        st.tuples(values),
    ),
    st.builds(
        Requirement,
        keys,
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.sets(values, min_size=1, max_size=4).map(lambda chosen: tuple(sorted(chosen))),
    ),
    st.builds(
        Requirement,
        keys,
        st.sampled_from([Operator.GREATER_THAN, Operator.LESS_THAN]),
        st.tuples(st.integers(0, 10**9).map(str)),
    ),
)


@settings(max_examples=150)
@given(st.lists(requirements, max_size=5))
def test_formatted_selector_round_trips(chosen: list[Requirement]) -> None:
    selector = LabelSelector(chosen)
    assert parse_label_selector(str(selector)) == selector


@settings(max_examples=100)
@given(st.dictionaries(keys, values, max_size=4), st.dictionaries(keys, values, max_size=4))
def test_label_selector_matches_exactly_the_supersets(wanted: dict[str, str], more: dict[str, str]) -> None:
    selector = selector_from_set(wanted)
    assert selector.matches(more | wanted)
    assert selector.matches(more) is (wanted.items() <= more.items())


@settings(max_examples=200)
@given(st.text(alphabet="ab in(),=!<>\t\0", max_size=14))
def test_any_text_is_parsed_or_rejected_as_selector(text: str) -> None:
    try:
        selector = parse_label_selector(text)
    except SelectorError:
        return
    assert parse_label_selector(str(selector)) == selector
