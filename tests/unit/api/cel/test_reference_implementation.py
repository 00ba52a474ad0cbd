# SPDX-License-Identifier: Apache-2.0
"""Property tests of expressions against Google's implementation, including errors."""

from __future__ import annotations

from typing import Any

from cel_expr_python import cel
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.cel.check.types import BOOL, DOUBLE, INT, STRING, list_of, map_of
from kubeloop.api.cel.library.kubernetes import kubernetes_environment
from kubeloop.api.cel.parse.syntax import CompileError
from kubeloop.api.cel.program import compile_expression
from kubeloop.api.cel.values import CelError

ENVIRONMENT = kubernetes_environment().extend(
    {"i": INT, "d": DOUBLE, "s": STRING, "b": BOOL, "l": list_of(INT), "m": map_of(STRING, INT)}
)
ORACLE = cel.NewEnv(
    variables={
        "i": cel.Type.INT,
        "d": cel.Type.DOUBLE,
        "s": cel.Type.STRING,
        "b": cel.Type.BOOL,
        "l": cel.Type.List(cel.Type.INT),
        "m": cel.Type.Map(cel.Type.STRING, cel.Type.INT),
    }
)
DATA: dict[str, Any] = {"i": 7, "d": 2.5, "s": "hello", "b": True, "l": [3, 1, 2], "m": {"a": 1, "b": 2}}

ints = st.sampled_from(["i", "0", "1", "-3", "9223372036854775807", "l[0]", "l[9]", "m['a']", "m.z", "size(s)", "x"])
texts = st.sampled_from(["s", "''", "'hé'", "'l'", "string(i)", "string(d)"])
reals = st.sampled_from(["d", "0.0", "1e3", "-0.5", "double(i)"])
bools = st.sampled_from(["b", "true", "false", "has(m.a)", "has(m.z)", "'a' in m", "3 in l"])


def whole(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, st.sampled_from("+-*/%"), inner).map(lambda of: f"({of[0]} {of[1]} {of[2]})"),
        inner.map(lambda of: f"-({of})"),
        st.tuples(bools, inner, inner).map(lambda of: f"({of[0]} ? {of[1]} : {of[2]})"),
    )


integers = st.recursive(ints, whole, max_leaves=4)
comparisons = st.one_of(
    *(
        st.tuples(kind, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), kind).map(" ".join)
        for kind in (integers, texts, reals)
    ),
    st.tuples(integers, reals).map(lambda of: f"dyn({of[0]}) < {of[1]}"),
    st.tuples(texts, st.sampled_from(["contains", "startsWith", "endsWith", "matches"]), texts).map(
        lambda of: f"{of[0]}.{of[1]}({of[2]})"
    ),
    bools,
)


def logic(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(lambda of: f"({of[0]} {of[1]} {of[2]})"),
        inner.map(lambda of: f"!({of})"),
        st.tuples(
            st.sampled_from(["l", "m.map(k, m[k])", "[1, 2, i]"]),
            st.sampled_from(["all", "exists", "exists_one"]),
            inner,
        ).map(lambda of: f"{of[0]}.{of[1]}(x, {of[2]})"),
    )


conditions = st.recursive(comparisons, logic, max_leaves=5)
values = st.one_of(
    st.tuples(st.sampled_from(["l", "[i, 2]"]), integers).map(lambda of: f"{of[0]}.map(x, {of[1]})"),
    st.tuples(st.sampled_from(["l", "[i, 2]"]), conditions).map(lambda of: f"{of[0]}.filter(x, {of[1]})"),
    integers,
    texts,
)


def ours(text: str) -> Any:
    try:
        return compile_expression(text, ENVIRONMENT).evaluate(DATA)[0]
    except CompileError:
        return "refused"
    except CelError:
        return "failed"


def theirs(text: str) -> Any:
    try:
        expression = ORACLE.compile(text)
    except RuntimeError:
        return "refused"
    found = expression.eval(data=DATA)
    return "failed" if found.type() == cel.Type.ERROR else found.plain_value()


@settings(max_examples=300, deadline=None)
@given(st.one_of(conditions, values))
def test_expression_evaluates_like_the_reference(text: str) -> None:
    assert ours(text) == theirs(text), text
