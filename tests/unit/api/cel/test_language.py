# SPDX-License-Identifier: Apache-2.0
"""The language itself: what expressions come to, what they cost, and how wrong ones are refused."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.cel.check.types import DYN, INT, STRING, list_of, map_of, object_named
from kubeloop.api.cel.environment import Environment, FieldType, ObjectType, merge_libraries
from kubeloop.api.cel.library import optionals, standard, times
from kubeloop.api.cel.library.conversions import TYPE_NAMES
from kubeloop.api.cel.parse.syntax import CompileError
from kubeloop.api.cel.program import compile_expression
from kubeloop.api.cel.values import Cancelled, CelError

THING = ObjectType(
    "thing",
    {
        "count": FieldType(INT, "count"),
        "name": FieldType(STRING, "name"),
        "list": FieldType(list_of(INT), "list"),
        "map": FieldType(map_of(STRING, DYN), "map"),
        "with__dot__dot": FieldType(STRING, "with.dot"),
    },
)
BASE = Environment(merge_libraries(standard.FUNCTIONS, times.FUNCTIONS, optionals.FUNCTIONS), {}, {}, TYPE_NAMES)
ENVIRONMENT = BASE.extend({"self": object_named("thing"), "any": DYN}, [THING])
DATA: dict[str, Any] = {
    "self": {"count": 3, "name": "hello", "list": [1, 2, 3], "map": {"k": 1}, "with.dot": "."},
    "any": {"list": [1, "z"], "float": 1.5, "nothing": None},
}


def value_of(text: str) -> Any:
    return compile_expression(text, ENVIRONMENT).evaluate(DATA)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("-5 % 3", -2),
        ("-7 / 2", -3),
        ("1 - -1", 2),
        ("--1", 1),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0x1F", 31),
        ("1u + 2u", 3),
        ("1.5 + 1e3", 1001.5),
        (".5", 0.5),
        ("'a' + \"b\" + r'\\n' + '\\u0041'", "ab\\nA"),
        ("b'\\xff' + b'a'", b"\xffa"),
        ("'''two\nlines'''", "two\nlines"),
        ("true ? 1 : 2", 1),
        ("false || true && !false", True),
        ("'b' in {'b': 1}", True),
        ("2 in [1, 2]", True),
        ("[1, 2] + [3] == [1, 2, 3]", True),
        ("{'a': [1]} == {'a': [1]}", True),
        ("1 < 2.5 && 2u > 1", True),
        ("self.list.all(x, x > 0)", True),
        ("self.list.exists(x, x > 2)", True),
        ("self.list.exists_one(x, x > 1)", False),
        ("self.list.map(x, x * 2)", [2, 4, 6]),
        ("self.list.map(x, x > 1, x * 2)", [4, 6]),
        ("self.list.filter(x, x != 2)", [1, 3]),
        ("self.map.all(k, k == 'k')", True),
        ("self.list.all(i, v, v == i + 1)", True),
        ("[[1, 2], [3]].map(x, x.map(y, y + 1))", [[2, 3], [4]]),
        ("has(self.map.k) && !has(self.map.z)", True),
        ("self.with__dot__dot", "."),
        ("self.map['k']", 1),
        ("any.list[1]", "z"),
        ("any.nothing == null", True),
        ("any.float < 2", True),
        ("any.?list[?5].orValue('d')", "d"),
        ("any.?missing.?deeper.hasValue()", False),
        ("[?optional.none(), ?optional.of(1)]", [1]),
        ("{?'a': optional.none(), 'b': 1}", {"b": 1}),
        ("optional.of(3).optMap(v, v + 1).value()", 4),
        ("optional.none().or(optional.of(1)).value()", 1),
        ("type(1) == int && type('') == string && type([]) == list", True),
        ("string(timestamp('2020-01-01T00:00:00Z') + duration('1h30m'))", "2020-01-01T01:30:00Z"),
        ("timestamp('2020-01-01T00:00:00Z').getHours('-08:00')", 16),
        ("string(timestamp('2020-01-02T00:00:00Z') - timestamp('2020-01-01T00:00:00Z'))", "86400s"),
        ("duration('90m').getHours()", 1),
        ("string(1.5) + string(100.0) + string(1e21)", "1.51001e+21"),
        ("int('12') + int(3.9) + int(4u)", 19),
        ("size('h\u00e9') + 'abc'.size() + [1].size() + size({})", 6),
        ("'hello'.matches('^h.*o$') && matches('a', 'a')", True),
        ("self.`name` // the name", "hello"),
    ],
)
def test_an_expression_has_a_value(text: str, expected: Any) -> None:
    found = value_of(text)
    assert found == expected
    assert isinstance(found, bool) == isinstance(expected, bool)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("false && 1 / 0 == 1", False),
        ("1 / 0 == 1 && false", False),
        ("1 / 0 == 1 || true", True),
        ("[1, 2].exists(x, 2 / (x - 1) == 2)", True),
        ("[1, 2].all(x, 2 / (x - 1) == 7)", False),
    ],
)
def test_operand_absorbs_the_error_of_another(text: str, expected: bool) -> None:
    assert value_of(text) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("0u - 1u", "unsigned integer overflow"),
        ("[1][1]", "index out of bounds: 1"),
        ("self.map.missing", "no such key: missing"),
        ("any.list + 1", "no such overload"),
        ("any.nothing.a == 1", "no such key: a"),
        ("any.float.a == 1", "no such key: a"),
        ("'x'.matches('(')", "missing closing"),
        ("int('x')", "type conversion error"),
        ("timestamp('x')", "parsing time"),
        ("optional.none().value()", "optional.none() dereference"),
        ("any && true", "no such overload"),
    ],
)
def test_an_evaluation_may_fail(text: str, message: str) -> None:
    with pytest.raises(CelError) as failure:
        value_of(text)
    assert message in str(failure.value)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("self.x == 1", 5, "undefined field 'x'"),
        ("nobody", 1, "undeclared reference to 'nobody' (in container '')"),
        ("self.count == 'x'", 12, "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.contains('a')", 14, "found no matching overload for 'contains' applied to 'thing.(string)'"),
        ("self.count.deeper", 11, "type 'int' does not support field selection"),
        ("1 && true", 1, "expected type 'bool' but found 'int'"),
        ("self.count.all(x, x)", 5, "expression of type 'int' cannot be range of a comprehension"),
        ("[1].all(1, true)", 9, "argument must be a simple name"),
        ("has(1)", 5, "invalid argument to has() macro"),
        ("self.count >", 13, "Syntax error: mismatched input '<EOF>'"),
        ("'abc", 1, "Syntax error: token recognition error"),
        ("1 # 2", 3, "Syntax error: token recognition error"),
        ("for", 1, "reserved identifier: for"),
        ("9223372036854775808", 1, "invalid int literal"),
        ("Thing{}", 6, "undeclared reference to 'Thing'"),
    ],
)
def test_invalid_expression_is_rejected_with_its_position(text: str, place: int, message: str) -> None:
    with pytest.raises(CompileError) as failure:
        compile_expression(text, ENVIRONMENT)
    shown = str(failure.value).split("\n")
    assert shown[0].startswith(f"ERROR: <input>:1:{place}: ")
    assert message in shown[0]
    assert shown[2] == " | " + "." * (place - 1) + "^"


def test_all_problems_are_reported() -> None:
    with pytest.raises(CompileError) as failure:
        compile_expression("self.x == 1 || nobody", ENVIRONMENT)
    assert [problem.offset for problem in failure.value.problems] == [4, 15]


def test_runaway_expressions_are_stopped() -> None:
    doubling = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
    text = "true"
    for name in "abcdef":
        text = f"{doubling}.all({name}, {text})"
    with pytest.raises(Cancelled) as failure:
        compile_expression(text, ENVIRONMENT).evaluate(DATA)
    assert str(failure.value) == "operation cancelled: actual cost limit exceeded"
    assert failure.value.cost > 1_000_000


@pytest.mark.parametrize("text", ["(" * 500 + "1" + ")" * 500, "[" * 500 + "]" * 500, "1" + " + 1" * 5000])
def test_deep_expressions_are_refused(text: str) -> None:
    with pytest.raises(CompileError, match=r"too deeply|recursion limit"):
        value_of(text)


def test_long_chains_are_not_deep() -> None:
    assert value_of("false" + " || false" * 5000 + " || true") is True
    assert value_of("-" * 5001 + "1") == -1


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("true", 0),
        ("self.count", 2),
        ("self.count > 1", 3),
        ("[self.count]", 12),
        ("{1: self}", 31),
        ("[1]", 0),
        ("3 in [1, 2]", 0),
        ("int('1')", 0),
        ("self.name == 'hello'", 3),
    ],
)
def test_costs_match_upstream(text: str, cost: int) -> None:
    assert compile_expression(text, ENVIRONMENT).evaluate(DATA)[1] == cost


@pytest.mark.parametrize("text", ["has(any.nothing.a)", "has(any.float.a)", "any.nothing.?a.hasValue()"])
def test_a_value_without_fields_has_none(text: str) -> None:
    """As cel-go, and kube-apiserver for `has(oldObject.data)` at a create."""
    assert value_of(text) is False
