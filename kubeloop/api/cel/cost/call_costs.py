# SPDX-License-Identifier: Apache-2.0
"""Estimated costs of calls by the sizes of their arguments: Kubernetes' estimates, then cel-go's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Final, NamedTuple

from kubeloop.api.cel.check.types import Type
from kubeloop.api.cel.cost.ranges import (
    MAX_UINT64,
    NOTHING,
    ONE,
    UNKNOWN,
    EstimateRange,
    fixed_range,
)
from kubeloop.api.cel.library.declarations import REGEX_FACTOR, STRING_FACTOR
from kubeloop.api.cel.parse.syntax import Expr, LiteralExpr

_FORMAT_SIZE: Final = 64
_FORMAT_REGEX_SIZE: Final = 128
_CHECK: Final = fixed_range(350_000)
_SELECTOR: Final = fixed_range(10)
_PER_REQUIREMENT: Final = 50.0
_ADDRESS_BYTES: Final = EstimateRange(4, 16)
_MAKING: Final = fixed_range(11)  # cost of making a list, by a call


@dataclass(frozen=True, slots=True)
class ArgumentEstimate:
    """Static facts about an argument."""

    type: Type
    size: EstimateRange | None
    node: Expr
    path: tuple[str, ...]
    size_at: Callable[[tuple[str, ...], Type], EstimateRange | None]

    @property
    def known_size(self) -> EstimateRange:
        """Size range; unknown sizes are unbounded."""
        return self.size or UNKNOWN

    @property
    def element(self) -> Type | None:
        """Type of the elements, if the type has parameters."""
        return self.type.params[0] if self.type.params else None

    @property
    def element_size(self) -> EstimateRange:
        """Size range of the elements."""
        assert self.element is not None
        path = (*self.path, "@items") if self.path else ()
        return self.size_at(path, self.element) or UNKNOWN


class CallEstimate(NamedTuple):
    """Estimated cost of a call, and the size of its result if it is known."""

    cost: EstimateRange
    size: EstimateRange | None = None


Arguments = list[ArgumentEstimate]
_Rule = Callable[[str, ArgumentEstimate | None, Arguments], CallEstimate | None]


def estimate_call(function: str, overload: str, target: ArgumentEstimate | None, args: Arguments) -> CallEstimate:
    """Return the estimate of a call, without the cost of its arguments."""
    rule = _BY_OVERLOAD.get(overload) or _BY_FUNCTION.get(function)
    estimate = rule(overload, target, args) if rule is not None else None
    if estimate is None and (rule := _STANDARD.get(overload)) is not None:
        estimate = rule(overload, target, args)
    return estimate or CallEstimate(ONE)


# Kubernetes' libraries.


def _over_list(overload: str, target: ArgumentEstimate | None, _: Arguments) -> CallEstimate | None:
    if target is None:
        return None
    element, cost = target.element, ONE
    if element is None and not overload.startswith("list_includes"):
        return CallEstimate(target.known_size.scaled(STRING_FACTOR))  # a string, whose indexes are supported too
    if element is not None and element.kind in ("string", "bytes"):
        cost = cost.plus(target.element_size.scaled(STRING_FACTOR))
    return CallEstimate(target.known_size.times(cost))


def _read(_: str, __: ArgumentEstimate | None, args: Arguments) -> CallEstimate | None:
    return CallEstimate(args[0].known_size.scaled(STRING_FACTOR)) if args else None


def _read_whole(_: str, __: ArgumentEstimate | None, args: Arguments) -> CallEstimate:
    return CallEstimate(args[0].known_size.scaled(STRING_FACTOR), args[0].known_size)


def _transformed(_: str, target: ArgumentEstimate | None, __: Arguments) -> CallEstimate | None:
    if target is None:
        return None
    return CallEstimate(target.known_size.scaled(STRING_FACTOR), target.known_size)


def _replaced(_: str, target: ArgumentEstimate | None, args: Arguments) -> CallEstimate | None:
    if target is None:
        return None
    size, old, new = target.known_size, args[0].known_size, args[1].known_size
    most = _longest(size.max, old.min, new.max)
    least = _shortest(size.min, old.max, new.min)
    return CallEstimate(size.scaled(2 * STRING_FACTOR), EstimateRange(min(least, MAX_UINT64), min(most, MAX_UINT64)))


def _longest(size: int, old: int, new: int) -> int:
    """Return the longest result of replacing the shortest parts by the longest ones."""
    if old == 0:  # insertion around each character
        return min(size + 1, MAX_UINT64) * new + size
    return size if new <= old else ceil(size / old) * new


def _shortest(size: int, old: int, new: int) -> int:
    if old == 0:
        return min(size + 1, MAX_UINT64) * new + size
    return size if old <= new else ceil(size / old) * new


def _split(_: str, target: ArgumentEstimate | None, args: Arguments) -> CallEstimate | None:
    if target is None:
        return None
    most = target.known_size.max
    if len(args) > 1 and isinstance(limit := args[1].node, LiteralExpr) and type(limit.value) is int:
        most = limit.value % (MAX_UINT64 + 1)
    return CallEstimate(target.known_size.scaled(2 * STRING_FACTOR), EstimateRange(0, most))


def _joined(_: str, target: ArgumentEstimate | None, args: Arguments) -> CallEstimate | None:
    if target is None:
        return None
    count = target.known_size
    size = count.times(target.element_size) if target.element is not None else NOTHING
    if args:
        separators = EstimateRange(max(count.min - 1, 0), max(count.max - 1, 0))
        size = size.plus(args[0].known_size.times(separators))
    return CallEstimate(size.scaled(STRING_FACTOR), size)


def _found(_: str, target: ArgumentEstimate | None, args: Arguments) -> CallEstimate | None:
    if target is None:
        return None
    return CallEstimate(_matching(target, args[0]), EstimateRange(0, target.known_size.max))


def _matching(text: ArgumentEstimate, pattern: ArgumentEstimate) -> EstimateRange:
    looked_at = text.known_size.plus(ONE).scaled(STRING_FACTOR)
    return looked_at.times(pattern.known_size.scaled(REGEX_FACTOR))


def _read_address(overload: str, _: ArgumentEstimate | None, args: Arguments) -> CallEstimate | None:
    return CallEstimate(ONE) if overload == "cidr_ip" else _read(overload, None, args)


def _canonical(_: str, __: ArgumentEstimate | None, args: Arguments) -> CallEstimate:
    return CallEstimate(args[0].known_size.scaled(2 * STRING_FACTOR))


def _contains_address(overload: str, _: ArgumentEstimate | None, args: Arguments) -> CallEstimate:
    cost = _ADDRESS_BYTES.plus(_ADDRESS_BYTES).scaled(STRING_FACTOR)
    if overload.startswith("cidr_contains_cidr"):
        cost = cost.plus(_ADDRESS_BYTES.scaled(STRING_FACTOR)).plus(ONE)
    if overload.endswith("_string"):
        cost = cost.plus(args[0].known_size.scaled(STRING_FACTOR))
    return CallEstimate(cost)


def _validated(_: str, __: ArgumentEstimate | None, args: Arguments) -> CallEstimate:
    cost = args[0].known_size.scaled(STRING_FACTOR)
    return CallEstimate(cost.scaled(_FORMAT_REGEX_SIZE * REGEX_FACTOR))


def _checked(_: str, __: ArgumentEstimate | None, ___: Arguments) -> CallEstimate:
    return CallEstimate(_CHECK)


def _selected(_: str, __: ArgumentEstimate | None, args: Arguments) -> CallEstimate:
    size = args[0].known_size
    requirements = size.scaled(0.5).scaled(_PER_REQUIREMENT)
    return CallEstimate(_SELECTOR.plus(size.scaled(STRING_FACTOR)).plus(requirements))


def _equal(_: str, __: ArgumentEstimate | None, args: Arguments) -> CallEstimate | None:
    """Estimate the equality of values of Kubernetes' own types; None for all others."""
    if args[0].type != args[1].type:
        return None
    name = args[0].type.name
    if name == "kubernetes.NamedFormat":
        return CallEstimate(EstimateRange(1, _FORMAT_SIZE).scaled(STRING_FACTOR))
    if name == "kubernetes.URL":
        return CallEstimate(EstimateRange(1, args[1].size.max if args[1].size is not None else 1).scaled(STRING_FACTOR))
    return CallEstimate(ONE) if name in _EQUAL_AT_ONCE else None


_ASKED_WITHIN_POLICIES: Final = ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
_EQUAL_AT_ONCE: Final = frozenset(
    ("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver",
     *(f"kubernetes.authorization.{one}" for one in _ASKED_WITHIN_POLICIES))
)  # fmt: skip


# cel-go's extensions.


def _number(one: ArgumentEstimate, otherwise: int) -> int:
    if isinstance(one.node, LiteralExpr) and type(one.node.value) is int:
        return max(one.node.value, 0)
    return otherwise


def _making(size: EstimateRange, factor: float = 1.0) -> CallEstimate:
    return CallEstimate(size.scaled(factor).plus(_MAKING), size)


def _sliced(_: str, target: ArgumentEstimate | None, args: Arguments) -> CallEstimate | None:
    if target is None:
        return None
    end = _number(args[1], target.known_size.max)
    return _making(fixed_range((end - _number(args[0], 0)) % (MAX_UINT64 + 1)))


def _ranged(_: str, __: ArgumentEstimate | None, args: Arguments) -> CallEstimate:
    return _making(fixed_range(_number(args[0], MAX_UINT64)))


def _reversed(_: str, target: ArgumentEstimate | None, __: Arguments) -> CallEstimate | None:
    return _making(target.known_size) if target is not None else None


def _flattened(_: str, target: ArgumentEstimate | None, args: Arguments) -> CallEstimate | None:
    if target is None:
        return None
    return _making(target.known_size, float(_number(args[0], MAX_UINT64)) if args else 1.0)


def _each_with_each(overload: str, target: ArgumentEstimate | None, args: Arguments) -> CallEstimate | None:
    values = args[0] if args else target
    if values is None:
        return None
    is_text = overload.startswith(("list_string_", "list_bytes_"))
    return _making(values.known_size.times(values.known_size), 2 + STRING_FACTOR if is_text else 2.0)


def _sets(times: float) -> _Rule:
    def rule(_: str, __: ArgumentEstimate | None, args: Arguments) -> CallEstimate:
        return CallEstimate(args[0].known_size.times(args[1].known_size).scaled(times).plus(ONE))

    return rule


# Standard functions.


def _formatted(_: str, target: ArgumentEstimate | None, __: Arguments) -> CallEstimate | None:
    return CallEstimate(target.known_size.scaled(STRING_FACTOR)) if target is not None else None


def _encoded(_: str, __: ArgumentEstimate | None, args: Arguments) -> CallEstimate:
    size = args[0].known_size
    return CallEstimate(size.scaled(STRING_FACTOR), EstimateRange(size.min, size.max * 4 % (MAX_UINT64 + 1)))


def _decoded(_: str, __: ArgumentEstimate | None, args: Arguments) -> CallEstimate:
    size = args[0].known_size
    return CallEstimate(size.scaled(STRING_FACTOR), EstimateRange(size.min // 4, size.max))


def _quoted(_: str, __: ArgumentEstimate | None, args: Arguments) -> CallEstimate:
    size = args[0].known_size
    return CallEstimate(size.scaled(STRING_FACTOR), EstimateRange(size.min + 2, (size.max * 2 + 2) % (MAX_UINT64 + 1)))


def _within(_: str, __: ArgumentEstimate | None, args: Arguments) -> CallEstimate:
    return CallEstimate(args[1].known_size.scaled(1))


def _matched(_: str, target: ArgumentEstimate | None, args: Arguments) -> CallEstimate:
    return CallEstimate(_matching(target, args[0]) if target is not None else _matching(args[0], args[1]))


def _contained(_: str, target: ArgumentEstimate | None, args: Arguments) -> CallEstimate | None:
    if target is None:
        return None
    return CallEstimate(target.known_size.scaled(STRING_FACTOR).times(args[0].known_size.scaled(STRING_FACTOR)))


def _concatenated(overload: str, _: ArgumentEstimate | None, args: Arguments) -> CallEstimate:
    size = args[0].known_size.plus(args[1].known_size)
    return CallEstimate(ONE if overload == "add_list" else size.scaled(STRING_FACTOR), size)


def _compared(_: str, __: ArgumentEstimate | None, args: Arguments) -> CallEstimate:
    most = min(args[0].known_size.max, args[1].known_size.max)
    return CallEstimate(EstimateRange(min(most, 1), most).scaled(STRING_FACTOR))


def _each(names: str, rule: Any) -> dict[str, _Rule]:
    return dict.fromkeys(names.split(), rule)


_BY_FUNCTION: Final[Mapping[str, _Rule]] = {
    "check": _checked,
    **_each("fieldSelector labelSelector", _selected),
    **_each("isSorted sum max min indexOf lastIndexOf includes", _over_list),
    **_each("url jsonpatch.escapeKey", _read_whole),
    **_each("lowerAscii upperAscii substring trim", _transformed),
    "replace": _replaced,
    "split": _split,
    "join": _joined,
    **_each("find findAll", _found),
    **_each("cidr isIP isCIDR quantity isQuantity semver isSemver", _read),
    "ip": _read_address,
    "ip.isCanonical": _canonical,
    **_each("containsIP containsCIDR", _contains_address),
    "validate": _validated,
    "_==_": _equal,
}
_BY_OVERLOAD: Final[Mapping[str, _Rule]] = {
    "list_slice": _sliced,
    **_each("list_flatten list_flatten_int", _flattened),
    "lists_range": _ranged,
    "list_reverse": _reversed,
    "list_distinct": _each_with_each,
    **{
        f"list_{one}_{verb}": _each_with_each
        for one in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
        for verb in ("sort", "sortByAssociatedKeys")
    },
    **_each("list_sets_contains_list list_sets_intersects_list", _sets(1)),
    "list_sets_equivalent_list": _sets(2),
}
_STANDARD: Final[Mapping[str, _Rule]] = {
    "string_format": _formatted,
    "string_to_bytes": _encoded,
    "bytes_to_string": _decoded,
    "strings_quote": _quoted,
    **_each("starts_with_string ends_with_string", _read),
    "in_list": _within,
    **_each("matches matches_string", _matched),
    "contains_string": _contained,
    **_each("add_string add_bytes add_list", _concatenated),
    **{
        f"{verb}_{one}": _compared
        for verb in ("less", "less_equals", "greater", "greater_equals")
        for one in ("string", "bytes")
    },
    **_each("equals not_equals", _compared),
}
