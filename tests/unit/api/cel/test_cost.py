# SPDX-License-Identifier: Apache-2.0
"""Tests of CEL costs: estimates and actual costs, with cel-go's numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.cel.check.types import DYN, INT, STRING, Type, list_of, map_of
from kubeloop.api.cel.cost.estimator import estimate_cost
from kubeloop.api.cel.cost.ranges import MAX_UINT64, EstimateRange
from kubeloop.api.cel.library.authorizer import AUTHORIZER
from kubeloop.api.cel.library.kubernetes import kubernetes_environment
from kubeloop.api.cel.program import compile_expression

ENVIRONMENT = kubernetes_environment().extend(
    {"authorizer": AUTHORIZER, "n": INT, "l": list_of(INT), "s": STRING, "m": map_of(STRING, INT)}
)
DATA: dict[str, Any] = {"n": 2, "l": [1, 2, 3], "s": "a" * 25, "m": {"a": 1, "b": 2}}


def bounds(text: str) -> tuple[int, int]:
    def size_at(_: tuple[str, ...], of: Type) -> EstimateRange | None:
        return EstimateRange(0, 12) if of.kind in ("string", "bytes") else None

    return tuple(estimate_cost(compile_expression(text, ENVIRONMENT).tree, size_at))


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("true", 0, 0),
        ("n == 1", 2, 2),
        ("n == 1 || n == 2", 2, 4),
        ("l.all(x, x > 0)", 2, MAX_UINT64),
        ("has(m.a)", 1, 1),
        ("'ABCDEFGHIJ abcdefghij'.lowerAscii()", 3, 3),
        ("'ABCDEFGHIJ abcdefghij'.upperAscii() == 'abcdefghij ABCDEFGHIJ'.upperAscii()", 7, 9),
        ("'abc 123 def 123'.replace('123', '456', 1)", 3, 3),
        ("'abc 123 def 123'.findAll('123')", 2, 2),
        ("['aa', 'bb', 'cc', 'd', 'e', 'f', 'g', 'h', 'i', 'j'].join(' ')", 11, 23),
        ("quantity('50k').add(20).sub(quantity('100k')).asInteger() > 0", 6, 6),
        ("format.named('dns1123Label').value() == format.named('dns1123Label').value()", 5, 11),
        ("format.named('dns1123Subdomain').value().validate('my-name')", 34, 34),
        ("semver('1.0.0').isLessThan(semver('1.1.0'))", 3, 3),
        ("authorizer.path('/healthz').check('get').allowed()", 350_003, 350_003),
        ("{'a': 1, 'b': 2}.all(k, v, v > 0)", 37, 41),
        ("{'a': 1, 'b': 2}.transformMapEntry(k, v, v < 5, {k: v + 1})", 67, 135),
        ("[1, 2].existsOne(i, v, v > 0)", 18, 20),
    ],
)
def test_cost_estimates_match_upstream(text: str, least: int, most: int) -> None:
    assert bounds(text) == (least, most)


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("2 in self.array", 10),
        ("self.array.all(e, e > 0)", 43),
        ("self.array.exists(e, e > 2)", 36),
        ("self.array.exists_one(e, e > 4)", 22),
        ("size(self.array.filter(e, e%2 == 0)) == 3", 68),
        ("self.array.map(e, e * 20).filter(e, e > 50).exists(e, e == 60)", 194),
        ("self.array.transformList(i, e, e > 2, e * 2).size() > 0", 77),
        ("!has(self.val.a)", 3),
        ("self.val.all(k, self.val[k] > 0)", 17),
        ("self.val.exists_one(k, self.val[k] == 2)", 14),
        ("optional.none().or(optional.of('a')).hasValue()", 3),
        ("optional.of('a').optMap(v, v == 'value').hasValue()", 8),
        ("self.val.?absent == optional.none()", 4),
        ("double(5) < 10.0", 1),
    ],
)
def test_actual_costs_match_upstream(text: str, cost: int) -> None:
    environment = ENVIRONMENT.extend({"self": DYN})
    data = {"array": [1, 1, 2, 2, 3, 3, 4, 5], "val": {"b": 1, "d": 2}}
    assert compile_expression(text, environment).evaluate({"self": data})[1] == cost


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.sampled_from(["n == 1", "s == 'a'", "l.exists(x, x == 2)", "s.startsWith('a')", "has(m.a)", "'a' in m"]),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(lambda of: f"({of[0]} {of[1]} {of[2]})"),
            inner.map(lambda of: f"(n > 1 ? {of} : !({of}))"),
            inner.map(lambda of: f"l.all(y, {of})"),
        ),
        max_leaves=6,
    )
)
def test_actual_cost_never_exceeds_the_estimate(text: str) -> None:
    sizes = {"s": 25, "l": 3, "m": 2}
    program = compile_expression(text, ENVIRONMENT)

    def size_at(path: tuple[str, ...], _: Type) -> EstimateRange | None:
        return EstimateRange(0, sizes[path[0]]) if len(path) == 1 and path[0] in sizes else None

    assert program.evaluate(DATA)[1] <= estimate_cost(program.tree, size_at).max
