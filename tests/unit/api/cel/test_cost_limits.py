# SPDX-License-Identifier: Apache-2.0
"""Tests of expensive expressions: rejected, or stopped."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kubeloop.api.cel.check.types import DYN, INT, STRING, list_of, map_of
from kubeloop.api.cel.cost.budget import BudgetExceeded, cost_budget
from kubeloop.api.cel.library.kubernetes import kubernetes_environment
from kubeloop.api.cel.parse.syntax import CompileError
from kubeloop.api.cel.program import compile_expression
from kubeloop.api.cel.values import Cancelled, CelError

ENVIRONMENT = kubernetes_environment().extend(
    {"l": list_of(INT), "s": STRING, "deep": DYN, "m": map_of(STRING, INT), "rows": list_of(list_of(INT))}
)
DATA: dict[str, Any] = {
    "l": list(range(3000)),
    "s": "a" * 5000,
    "deep": [[list(range(20_000))]],
    "m": {f"k{number}": number for number in range(20_000)},
    "rows": [[number] for number in range(20_000)],
}


def nested(pattern: str, inner: str, times: int) -> str:
    for index in range(times):
        inner = pattern.replace("$", inner).replace("#", f"v{index}")
    return inner


@pytest.mark.parametrize(
    "text",
    [
        "l.all(x, l.all(y, x + y >= 0))",
        "l.map(x, l.map(y, y)).size() > 0",
        "l.all(x, deep == deep)",
        "l.all(x, '%s'.format([deep]).size() > 0)",
        "l.all(x, s.matches('^(a+)+$') || true)",
        "l.all(x, l.sort().size() > 0)",
        "l.all(x, l.distinct().size() > 0)",
        "l.all(x, (m.map(k, 1) + m.map(k, 2)).size() > 0)",
        "l.all(x, m == m)",
        "l.all(x, rows == rows)",
        "l.all(x, s.findAll('a').size() > 0)",
        "s.replace('', s).replace('', s).size() > 0",
        "lists.range(9223372036854775807).size() > 0",
        "optional.of(l)" + "".join(f".optMap(v{index}, v{index} + v{index})" for index in range(25)) + ".hasValue()",
        "optional.of(s)" + "".join(f".optMap(v{index}, v{index} + v{index})" for index in range(25)) + ".hasValue()",
    ],
)
def test_a_runaway_expression_is_stopped(text: str) -> None:
    with pytest.raises(Cancelled, match="actual cost limit exceeded"):
        compile_expression(text, ENVIRONMENT).evaluate(DATA)


@pytest.mark.parametrize(
    "text",
    [
        nested("[$]", "1", 300),
        nested("l.all(#, $)", "true", 300),
        nested("optional.of(1).optMap(#, $)", "1", 300),
        nested("($ ? 1 : 2) > 1", "true", 300),
        "l" + ".a" * 5000,
        "deep" + "[0]" * 5000,
        "1" + " + 1" * 20_000,
        "!" * 50_001 + "true && 1",
        "x" * 200_000,
    ],
)
def test_a_deep_or_long_expression_is_refused(text: str) -> None:
    with pytest.raises(CompileError):
        compile_expression(text, ENVIRONMENT)


@pytest.mark.parametrize(
    "text",
    [
        nested("l.map(#, $).size()", "1", 20),
        nested("optional.of(1).optMap(#, $).value()", "1", 20),
        "deep" + ".?a" * 100,
        "[" + ", ".join(["[]"] * 5000) + "]",
        "{" + ", ".join(f"{index}: []" for index in range(3000)) + "}",
        " || ".join(["l == []"] * 5000),
    ],
)
def test_compiling_takes_time_in_proportion(text: str) -> None:
    before = time.process_time()
    compile_expression(text, ENVIRONMENT)
    assert time.process_time() - before < 5


def test_null_for_a_declared_type_fails_the_evaluation_only() -> None:
    with pytest.raises(CelError, match="no such overload"):
        compile_expression("l.all(x, x + 1 > 0)", ENVIRONMENT).evaluate({"l": [None]})


@pytest.mark.parametrize(
    "text",
    [
        "m.exists(k, l.exists(y, y == 0))",  # each inner loop ends immediately
        "rows.all(r, m['k1'] == 1)",
        "rows.all(r, size(m) > 0)",
    ],
)
def test_cheap_operations_do_not_depend_on_collection_size(text: str) -> None:
    """A copy per iteration, or a scan of all keys, would take minutes."""
    before = time.process_time()
    assert compile_expression(text, ENVIRONMENT).evaluate(DATA)[0] is True
    assert time.process_time() - before < 5


@pytest.mark.parametrize(
    "text", ["l.all(x, l.all(y, x + y >= 0))", "l.exists(x, l.all(y, true)) || true", "rows == rows || true"]
)
def test_expensive_evaluation_is_aborted_with_a_budget(text: str) -> None:
    program = compile_expression(text, ENVIRONMENT)
    with cost_budget(1000), pytest.raises(BudgetExceeded):
        program.evaluate(DATA)


def test_budget_covers_all_evaluations() -> None:
    program = compile_expression("l.all(x, x >= 0)", ENVIRONMENT)
    data = {"l": list(range(100))}
    cost = program.evaluate(data)[1]
    with cost_budget(3 * cost):
        for _ in range(3):
            assert program.evaluate(data) == (True, cost)
        with pytest.raises(BudgetExceeded):
            program.evaluate(data)
    assert program.evaluate(data) == (True, cost)


def test_cost_limit_reached_before_the_budget_is_reported_as_usual() -> None:
    program = compile_expression("l.all(x, l.all(y, x + y >= 0))", ENVIRONMENT)
    with cost_budget(1000), pytest.raises(Cancelled, match="actual cost limit exceeded"):
        program.evaluate(DATA, 100)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([1, 2], [1, 2], True),
        ([1, 2], [1, 3], False),
        ([1], [True], False),
        ([1.0], [1], True),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": "x"}, {"a": "y"}, False),
        (["a", [True]], ["a", [1]], False),
    ],
)
def test_fast_path_for_plain_values_gives_the_same_result(one: Any, other: Any, same: bool) -> None:
    both = ENVIRONMENT.extend({"one": DYN, "other": DYN})
    assert compile_expression("one == other", both).evaluate({"one": one, "other": other})[0] is same
