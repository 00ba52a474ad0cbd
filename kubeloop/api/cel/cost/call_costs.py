"""Estimated costs of calls by the sizes of their arguments: Kubernetes' estimates, then cel-go's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Final, NamedTuple

from kubeloop.api.cel.check.types import Type
from kubeloop.api.cel.cost.estimates import MOST, NOTHING, ONE, UNKNOWN, Range, exactly
from kubeloop.api.cel.library.declaring import REGEX_FACTOR, STRING_FACTOR
from kubeloop.api.cel.parse.syntax import Literal, Node

_FORMAT_SIZE: Final = 64
_FORMAT_REGEX_SIZE: Final = 128
_CHECK: Final = exactly(350_000)
_SELECTOR: Final = exactly(10)
_PER_REQUIREMENT: Final = 50.0
_ADDRESS_BYTES: Final = Range(4, 16)
_MAKING: Final = exactly(11)  # cost of making a list, by a call


@dataclass(frozen=True, slots=True)
class Argument:
    """Static facts about an argument."""

    type: Type
    size: Range | None
    node: Node
    path: tuple[str, ...]
    size_at: Callable[[tuple[str, ...], Type], Range | None]

    @property
    def known_size(self) -> Range:
        """Size range; unknown sizes are unbounded."""
        return self.size or UNKNOWN

    @property
    def element(self) -> Type | None:
        """Type of the elements, if the type has parameters."""
        return self.type.params[0] if self.type.params else None

    @property
    def element_size(self) -> Range:
        """Size range of the elements."""
        assert self.element is not None
        path = (*self.path, "@items") if self.path else ()
        return self.size_at(path, self.element) or UNKNOWN


class Estimate(NamedTuple):
    """Estimated cost of a call, and the size of its result if it is known."""

    cost: Range
    size: Range | None = None


Arguments = list[Argument]
_Rule = Callable[[str, Argument | None, Arguments], Estimate | None]


def estimated_call(function: str, overload: str, target: Argument | None, args: Arguments) -> Estimate:
    """Return the estimate of a call, without the cost of its arguments."""
    rule = _BY_OVERLOAD.get(overload) or _BY_FUNCTION.get(function)
    estimate = rule(overload, target, args) if rule is not None else None
    if estimate is None and (rule := _STANDARD.get(overload)) is not None:
        estimate = rule(overload, target, args)
    return estimate or Estimate(ONE)


# Kubernetes' libraries.


def _over_list(overload: str, target: Argument | None, _: Arguments) -> Estimate | None:
    if target is None:
        return None
    element, cost = target.element, ONE
    if element is None and not overload.startswith("list_includes"):
        return Estimate(target.known_size.scaled(STRING_FACTOR))  # a string, whose indexes are supported too
    if element is not None and element.kind in ("string", "bytes"):
        cost = cost.plus(target.element_size.scaled(STRING_FACTOR))
    return Estimate(target.known_size.times(cost))


def _read(_: str, __: Argument | None, args: Arguments) -> Estimate | None:
    return Estimate(args[0].known_size.scaled(STRING_FACTOR)) if args else None


def _read_whole(_: str, __: Argument | None, args: Arguments) -> Estimate:
    return Estimate(args[0].known_size.scaled(STRING_FACTOR), args[0].known_size)


def _transformed(_: str, target: Argument | None, __: Arguments) -> Estimate | None:
    if target is None:
        return None
    return Estimate(target.known_size.scaled(STRING_FACTOR), target.known_size)


def _replaced(_: str, target: Argument | None, args: Arguments) -> Estimate | None:
    if target is None:
        return None
    size, old, new = target.known_size, args[0].known_size, args[1].known_size
    most = _longest(size.most, old.least, new.most)
    least = _shortest(size.least, old.most, new.least)
    return Estimate(size.scaled(2 * STRING_FACTOR), Range(min(least, MOST), min(most, MOST)))


def _longest(size: int, old: int, new: int) -> int:
    """Return the longest result of replacing the shortest parts by the longest ones."""
    if old == 0:  # insertion around each character
        return min(size + 1, MOST) * new + size
    return size if new <= old else ceil(size / old) * new


def _shortest(size: int, old: int, new: int) -> int:
    if old == 0:
        return min(size + 1, MOST) * new + size
    return size if old <= new else ceil(size / old) * new


def _split(_: str, target: Argument | None, args: Arguments) -> Estimate | None:
    if target is None:
        return None
    most = target.known_size.most
    if len(args) > 1 and isinstance(limit := args[1].node, Literal) and type(limit.value) is int:
        most = limit.value % (MOST + 1)
    return Estimate(target.known_size.scaled(2 * STRING_FACTOR), Range(0, most))


def _joined(_: str, target: Argument | None, args: Arguments) -> Estimate | None:
    if target is None:
        return None
    count = target.known_size
    size = count.times(target.element_size) if target.element is not None else NOTHING
    if args:
        separators = Range(max(count.least - 1, 0), max(count.most - 1, 0))
        size = size.plus(args[0].known_size.times(separators))
    return Estimate(size.scaled(STRING_FACTOR), size)


def _found(_: str, target: Argument | None, args: Arguments) -> Estimate | None:
    if target is None:
        return None
    return Estimate(_matching(target, args[0]), Range(0, target.known_size.most))


def _matching(text: Argument, pattern: Argument) -> Range:
    looked_at = text.known_size.plus(ONE).scaled(STRING_FACTOR)
    return looked_at.times(pattern.known_size.scaled(REGEX_FACTOR))


def _read_address(overload: str, _: Argument | None, args: Arguments) -> Estimate | None:
    return Estimate(ONE) if overload == "cidr_ip" else _read(overload, None, args)


def _canonical(_: str, __: Argument | None, args: Arguments) -> Estimate:
    return Estimate(args[0].known_size.scaled(2 * STRING_FACTOR))


def _contains_address(overload: str, _: Argument | None, args: Arguments) -> Estimate:
    cost = _ADDRESS_BYTES.plus(_ADDRESS_BYTES).scaled(STRING_FACTOR)
    if overload.startswith("cidr_contains_cidr"):
        cost = cost.plus(_ADDRESS_BYTES.scaled(STRING_FACTOR)).plus(ONE)
    if overload.endswith("_string"):
        cost = cost.plus(args[0].known_size.scaled(STRING_FACTOR))
    return Estimate(cost)


def _validated(_: str, __: Argument | None, args: Arguments) -> Estimate:
    cost = args[0].known_size.scaled(STRING_FACTOR)
    return Estimate(cost.scaled(_FORMAT_REGEX_SIZE * REGEX_FACTOR))


def _checked(_: str, __: Argument | None, ___: Arguments) -> Estimate:
    return Estimate(_CHECK)


def _selected(_: str, __: Argument | None, args: Arguments) -> Estimate:
    size = args[0].known_size
    requirements = size.scaled(0.5).scaled(_PER_REQUIREMENT)
    return Estimate(_SELECTOR.plus(size.scaled(STRING_FACTOR)).plus(requirements))


def _equal(_: str, __: Argument | None, args: Arguments) -> Estimate | None:
    """Estimate the equality of values of Kubernetes' own types; None for all others."""
    if args[0].type != args[1].type:
        return None
    name = args[0].type.name
    if name == "kubernetes.NamedFormat":
        return Estimate(Range(1, _FORMAT_SIZE).scaled(STRING_FACTOR))
    if name == "kubernetes.URL":
        return Estimate(Range(1, args[1].size.most if args[1].size is not None else 1).scaled(STRING_FACTOR))
    return Estimate(ONE) if name in _EQUAL_AT_ONCE else None


_ASKED_WITHIN_POLICIES: Final = ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
_EQUAL_AT_ONCE: Final = frozenset(
    ("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver",
     *(f"kubernetes.authorization.{one}" for one in _ASKED_WITHIN_POLICIES))
)  # fmt: skip


# cel-go's extensions.


def _number(one: Argument, otherwise: int) -> int:
    if isinstance(one.node, Literal) and type(one.node.value) is int:
        return max(one.node.value, 0)
    return otherwise


def _making(size: Range, factor: float = 1.0) -> Estimate:
    return Estimate(size.scaled(factor).plus(_MAKING), size)


def _sliced(_: str, target: Argument | None, args: Arguments) -> Estimate | None:
    if target is None:
        return None
    end = _number(args[1], target.known_size.most)
    return _making(exactly((end - _number(args[0], 0)) % (MOST + 1)))


def _ranged(_: str, __: Argument | None, args: Arguments) -> Estimate:
    return _making(exactly(_number(args[0], MOST)))


def _reversed(_: str, target: Argument | None, __: Arguments) -> Estimate | None:
    return _making(target.known_size) if target is not None else None


def _flattened(_: str, target: Argument | None, args: Arguments) -> Estimate | None:
    if target is None:
        return None
    return _making(target.known_size, float(_number(args[0], MOST)) if args else 1.0)


def _each_with_each(overload: str, target: Argument | None, args: Arguments) -> Estimate | None:
    values = args[0] if args else target
    if values is None:
        return None
    is_text = overload.startswith(("list_string_", "list_bytes_"))
    return _making(values.known_size.times(values.known_size), 2 + STRING_FACTOR if is_text else 2.0)


def _sets(times: float) -> _Rule:
    def rule(_: str, __: Argument | None, args: Arguments) -> Estimate:
        return Estimate(args[0].known_size.times(args[1].known_size).scaled(times).plus(ONE))

    return rule


# Standard functions.


def _formatted(_: str, target: Argument | None, __: Arguments) -> Estimate | None:
    return Estimate(target.known_size.scaled(STRING_FACTOR)) if target is not None else None


def _encoded(_: str, __: Argument | None, args: Arguments) -> Estimate:
    size = args[0].known_size
    return Estimate(size.scaled(STRING_FACTOR), Range(size.least, size.most * 4 % (MOST + 1)))


def _decoded(_: str, __: Argument | None, args: Arguments) -> Estimate:
    size = args[0].known_size
    return Estimate(size.scaled(STRING_FACTOR), Range(size.least // 4, size.most))


def _quoted(_: str, __: Argument | None, args: Arguments) -> Estimate:
    size = args[0].known_size
    return Estimate(size.scaled(STRING_FACTOR), Range(size.least + 2, (size.most * 2 + 2) % (MOST + 1)))


def _within(_: str, __: Argument | None, args: Arguments) -> Estimate:
    return Estimate(args[1].known_size.scaled(1))


def _matched(_: str, target: Argument | None, args: Arguments) -> Estimate:
    return Estimate(_matching(target, args[0]) if target is not None else _matching(args[0], args[1]))


def _contained(_: str, target: Argument | None, args: Arguments) -> Estimate | None:
    if target is None:
        return None
    return Estimate(target.known_size.scaled(STRING_FACTOR).times(args[0].known_size.scaled(STRING_FACTOR)))


def _concatenated(overload: str, _: Argument | None, args: Arguments) -> Estimate:
    size = args[0].known_size.plus(args[1].known_size)
    return Estimate(ONE if overload == "add_list" else size.scaled(STRING_FACTOR), size)


def _compared(_: str, __: Argument | None, args: Arguments) -> Estimate:
    most = min(args[0].known_size.most, args[1].known_size.most)
    return Estimate(Range(min(most, 1), most).scaled(STRING_FACTOR))


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
