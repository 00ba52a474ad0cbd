# SPDX-License-Identifier: Apache-2.0
"""CEL: random expressions of a wanted type over values of known types, some with errors."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

_INT_TEXTS = ("0", "1", "2", "5", "-1", "10", "9223372036854775807")
_STRING_TEXTS = ("'a'", "'abc'", "''", "'A-b'", "'a.b/c'", "'10.0.0.1'", "'1Gi'", "'https://ex.io:80/a?b=c'", "'1h'")
_BROKEN = ("1 +", "self.nothing", "unknown()", "'a' + 1", "size(1)", "self ==", "true ? 1 : 'a'", "[1, 2].all(x)")


@dataclass(frozen=True, slots=True)
class Operand:
    """Expression with its type: int, string, bool, double, list(T), map(T) or object."""

    text: str
    type: str


def bool_expression(rng: random.Random, operands: Sequence[Operand], depth: int = 2) -> str:
    """Return an expression of type bool; a few do not compile."""
    if rng.random() < 0.04:
        return rng.choice(_BROKEN)
    return _boolean(rng, operands, depth)


def string_expression(rng: random.Random, operands: Sequence[Operand]) -> str:
    """Return an expression of type string."""
    return _string(rng, operands, 1)


def _boolean(rng: random.Random, operands: Sequence[Operand], depth: int) -> str:
    if depth > 0 and rng.random() < 0.5:
        one, other = (_boolean(rng, operands, depth - 1) for _ in range(2))
        return rng.choice(
            (
                f"({one} && {other})",
                f"({one} || {other})",
                f"!({one})",
                f"({one} ? {other} : {one})",
                f"{one} == {other}",
            )
        )
    forms = (_int_comparison, _int_comparison, _string_test, _string_test, _of_operand, _of_operand, _library)
    return rng.choice(forms)(rng, operands, depth)


def _int_comparison(rng: random.Random, operands: Sequence[Operand], depth: int) -> str:
    sign = rng.choice(("<", "<=", "==", "!=", ">", ">="))
    return f"{_integer(rng, operands, depth)} {sign} {_integer(rng, operands, depth)}"


def _integer(rng: random.Random, operands: Sequence[Operand], depth: int) -> str:
    known = [one.text for one in operands if one.type == "int"]
    sized = [one.text for one in operands if one.type.startswith(("list", "map", "string"))]
    if depth > 0 and rng.random() < 0.3:
        one, other = (_integer(rng, operands, depth - 1) for _ in range(2))
        return rng.choice((f"({one} + {other})", f"({one} - {other})", f"({one} * {other})", f"({one} % {other})"))
    if sized and rng.random() < 0.3:
        text = rng.choice(sized)
        return rng.choice((f"size({text})", f"{text}.size()"))
    if known and rng.random() < 0.7:
        return rng.choice(known)
    return rng.choice(_INT_TEXTS)


def _string(rng: random.Random, operands: Sequence[Operand], depth: int) -> str:
    known = [one.text for one in operands if one.type == "string"]
    if depth > 0 and rng.random() < 0.4:
        one, other = (_string(rng, operands, depth - 1) for _ in range(2))
        number = _integer(rng, operands, 0)
        forms = (
            f"({one} + {other})",
            f"{one}.lowerAscii()",
            f"{one}.replace({other}, 'x')",
            f"{one}.substring({number})",
            f"{one}.trim()",
            f"{one}.charAt({number})",
            f"string({number})",
            f"[{one}, {other}].join('-')",
            f"'%s=%d'.format([{one}, {number}])",
            f"{one}.split('-')[0]",
        )
        return rng.choice(forms)
    return rng.choice(known) if known and rng.random() < 0.7 else rng.choice(_STRING_TEXTS)


def _string_test(rng: random.Random, operands: Sequence[Operand], depth: int) -> str:
    one, other = _string(rng, operands, depth - 1), _string(rng, operands, 0)
    forms = (
        f"{one} == {other}",
        f"{one} != {other}",
        f"{one}.startsWith({other})",
        f"{one}.endsWith({other})",
        f"{one}.contains({other})",
        f"{one}.matches('^[a-z]+$')",
        f"{one} in [{other}, 'a']",
        f"{one}.indexOf({other}) >= 0",
        f"{one} < {other}",
    )
    return rng.choice(forms)


def _of_operand(rng: random.Random, operands: Sequence[Operand], depth: int) -> str:
    """Return a test of a list, a map, a bool or an optional field."""
    one = rng.choice(operands) if operands else Operand("true", "bool")
    if one.type == "bool":
        return one.text
    if one.type.startswith("list"):
        inner = [*operands, Operand("x", one.type[5:-1])]
        macro = rng.choice(("all", "exists", "exists_one"))
        return f"{one.text}.{macro}(x, {_boolean(rng, inner, min(depth - 1, 0))})"
    if one.type.startswith("map"):
        return rng.choice((f"'a' in {one.text}", f"{one.text}.all(k, k.size() < 5)", f"{one.text}.exists(k, k == 'a')"))
    if "." in one.text and rng.random() < 0.6:
        return f"has({one.text})"
    return f"{one.text} == {one.text}"


def _library(rng: random.Random, operands: Sequence[Operand], depth: int) -> str:
    text, number = _string(rng, operands, depth - 1), _integer(rng, operands, 0)
    forms = (
        f"isURL({text})",
        f"url({text}).getScheme() == 'https'",
        f"isQuantity({text})",
        f"quantity({text}).isGreaterThan(quantity('1k'))",
        f"isIP({text})",
        f"ip({text}).family() == 4",
        f"cidr('10.0.0.0/8').containsIP({text})",
        f"duration({text}) < duration('2h')",
        f"[{number}, 3].max() > 2",
        f"[{number}, 1].sum() == 4",
        f"[{number}].isSorted()",
        f"{text}.find('[0-9]+') == ''",
        f"format.dns1123Label().validate({text}).hasValue()",
        f"[{text}].indexOf('a') == 0",
        f"int({text}) > 1",
        f"double({number}) > 1.5",
        f"sets.contains(['a', 'b'], [{text}])",
        f"isSemver({text})",
        f"optional.of({number}).orValue(1) == 1",
        f"dyn({text}) == {number}",
        f"type({text}) == string",
    )
    return rng.choice(forms)
