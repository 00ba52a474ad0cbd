# SPDX-License-Identifier: Apache-2.0
"""Static cost estimator: the minimum and maximum cost of an expression, exactly as cel-go computes them.

Sizes of values are followed through the tree: those of literals are known; for data the caller gives the limits of the
schema at a path such as `("self", "spec", "@items")`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from kubeloop.api.cel.check.types import Type, is_optional
from kubeloop.api.cel.cost.call_costs import ArgumentEstimate, CallEstimate, estimate_call
from kubeloop.api.cel.cost.ranges import EMPTY, NOTHING, ONE, UNKNOWN, EstimateRange, fixed_range
from kubeloop.api.cel.parse.macros import TARGET
from kubeloop.api.cel.parse.syntax import (
    BindExpr,
    CallExpr,
    ComprehensionExpr,
    Expr,
    IdentExpr,
    ListExpr,
    LiteralExpr,
    MapExpr,
    SelectExpr,
    StructExpr,
)
from kubeloop.api.cel.visitor import Visitor

Path = tuple[str, ...]
# Size range of a value at a path, of a type; None if it is unknown.
SizeAt = Callable[[Path, Type], EstimateRange | None]

_LIST: Final = fixed_range(10)
_MAP: Final = fixed_range(30)
_OBJECT: Final = fixed_range(40)
_SCALARS: Final = frozenset(("bool", "double", "duration", "int", "timestamp", "uint"))
_HAS_FIELDS: Final = frozenset(("map", "object", "variable"))


def estimate_cost(tree: Expr, size_at: SizeAt) -> EstimateRange:
    """Return the estimated cost of a checked tree."""
    return _Estimator(size_at).visit(tree)


@dataclass(frozen=True, slots=True)
class _Entries:
    """Sizes of a collection's keys and values."""

    container: str
    key: EstimateRange
    value: EstimateRange

    def spanning(self, other: _Entries | None) -> _Entries | None:
        if other is None:
            return None
        return _Entries(self.container, self.key.spanning(other.key), self.value.spanning(other.value))


@dataclass(frozen=True, slots=True)
class _Local:
    """Known facts of a local variable; `cost` is that of a bound expression, which upstream repeats at each use."""

    path: Path
    size: EstimateRange | None
    entries: _Entries | None = None
    cost: EstimateRange = ONE


class _Estimator(Visitor[EstimateRange]):
    def __init__(self, size_at: SizeAt) -> None:
        self._size_at = size_at
        self._paths: dict[Expr, Path] = {}
        self._sizes: dict[Expr, EstimateRange] = {}
        self._entries: dict[Expr, _Entries] = {}
        self._locals: dict[str, list[_Local]] = {}

    def _literal(self, node: LiteralExpr) -> EstimateRange:
        return NOTHING

    def _object(self, node: StructExpr) -> EstimateRange:
        return self._total(entry.value for entry in node.entries).plus(_OBJECT)

    def _total(self, nodes: Iterator[Expr]) -> EstimateRange:
        total = NOTHING
        for node in nodes:
            total = total.plus(self.visit(node))
        return total

    # Identifiers and fields.

    def _local(self, name: str) -> _Local | None:
        known = self._locals.get(name)
        return known[-1] if known else None

    @contextmanager
    def _naming(self, name: str, local: _Local) -> Iterator[None]:
        self._locals.setdefault(name, []).append(local)
        yield
        self._locals[name].pop()

    def _ident(self, node: IdentExpr) -> EstimateRange:
        local = self._local(node.name)
        self._paths[node] = local.path if local is not None else (node.name,)
        return local.cost if local is not None else ONE

    def _select(self, node: SelectExpr) -> EstimateRange:
        if not node.field:  # the whole chain is one name
            cost = self.visit(node.operand)
            self._paths[node] = self._path(node.operand)
            return cost
        cost = self.visit(node.operand)
        if node.is_test:
            return cost
        self._paths[node] = (*self._path(node.operand), node.field)
        return cost.plus(ONE) if node.operand.type.kind in _HAS_FIELDS else cost

    def _path(self, node: Expr) -> Path:
        if isinstance(node, IdentExpr) and (local := self._local(node.name)) is not None:
            return local.path
        return self._paths.get(node, ())

    # Collections.

    def _list(self, node: ListExpr) -> EstimateRange:
        cost, size = NOTHING, EMPTY if node.elements else NOTHING
        for element in node.elements:
            cost = cost.plus(self.visit(element))
            size = size.spanning(self._size_or_unknown(element))
        self._entries[node] = _Entries("list", ONE, size)
        return cost.plus(_LIST)

    def _map(self, node: MapExpr) -> EstimateRange:
        cost = NOTHING
        keys = values = EMPTY if node.entries else NOTHING
        for entry in node.entries:
            cost = cost.plus(self.visit(entry.key)).plus(self.visit(entry.value))
            keys = keys.spanning(self._size_or_unknown(entry.key))
            values = values.spanning(self._size_or_unknown(entry.value))
        self._entries[node] = _Entries("map", keys, values)
        return cost.plus(_MAP)

    # Calls.

    def _call(self, node: CallExpr) -> EstimateRange:
        if node.function == "_?._":
            return self.visit(node.args[0]).plus(ONE)
        if node.function == "dyn":
            cost = self.visit(node.args[0])
            self._copy_sizes(node, node.args[0])
            return cost.plus(ONE)
        costs, args = [], []
        for arg in node.args:
            costs.append(self.visit(arg))
            args.append(self._argument(arg))
        spent, target = NOTHING, None
        if node.target is not None:
            spent = self.visit(node.target)
            target = self._argument(node.target)
        own, size = EMPTY, None
        for overload in node.overloads:
            estimate = self._estimate(node, overload.name, target, args, costs)
            own = own.spanning(estimate.cost)
            size = self._result_size(node, overload.name, size, estimate.size)
        if size is not None:
            self._sizes[node] = size
        return spent.plus(own)

    def _argument(self, node: Expr) -> ArgumentEstimate:
        return ArgumentEstimate(node.type, self._size(node), node, self._path(node), self._size_at)

    def _result_size(
        self, node: CallExpr, overload: str, before: EstimateRange | None, found: EstimateRange | None
    ) -> EstimateRange | None:
        size = found if before is None else before if found is None else before.spanning(found)
        if overload in ("index_list", "index_map"):
            entries = self._entries_of(node.args[0])
            size = entries.value if entries is not None else None
            step = "@items" if overload == "index_list" else "@values"
            self._paths[node] = (*self._path(node.args[0]), step)
        return self._size(node) if size is None else size

    def _estimate(
        self,
        node: CallExpr,
        overload: str,
        target: ArgumentEstimate | None,
        args: list[ArgumentEstimate],
        costs: list[EstimateRange],
    ) -> CallEstimate:
        total = NOTHING
        for cost in costs:
            total = total.plus(cost)
        if overload in ("logical_or", "logical_and"):
            return CallEstimate(EstimateRange(costs[0].min, total.max))
        if overload == "conditional":
            return self._conditional(node, args, costs)
        if overload in ("add_string", "add_bytes", "add_list"):
            self._join_entries(node)
        estimate = estimate_call(node.function, overload, target, args)
        return CallEstimate(estimate.cost.plus(total), estimate.size)

    def _conditional(self, node: CallExpr, args: list[ArgumentEstimate], costs: list[EstimateRange]) -> CallEstimate:
        entries = self._entries_of(node.args[1])
        if entries is not None and (both := entries.spanning(self._entries_of(node.args[2]))) is not None:
            self._entries[node] = both
        cost = costs[0].plus(costs[1].spanning(costs[2]))
        return CallEstimate(cost, args[1].known_size.spanning(args[2].known_size))

    def _join_entries(self, node: CallExpr) -> None:
        entries = self._entries_of(node.args[0])
        if entries is not None and (both := entries.spanning(self._entries_of(node.args[1]))) is not None:
            self._entries[node] = both

    # Comprehensions.

    def _fold(self, node: ComprehensionExpr) -> EstimateRange:
        cost = self.visit(node.range).plus(self.visit(node.start))
        accumulator = _Local(self._path(node.start), self._size(node.start), self._entries_of(node.start))
        with self._naming(node.accumulator, accumulator):
            round_cost = self._round(node)
            cost = cost.plus(self.visit(node.result))
        rounds = self._size_or_unknown(node.range)
        cost = cost.plus(rounds.times(round_cost))
        if isinstance(node.start, LiteralExpr):
            self._set_size(node, self._size(node.start))
        elif isinstance(node.start, (ListExpr, MapExpr)):
            self._sizes[node] = rounds
            self._set_entries(node, self._entries_of(node.step))
        return cost

    def _round(self, node: ComprehensionExpr) -> EstimateRange:
        entries, path = self._entries_of(node.range), self._path(node.range)
        is_list = (entries.container if entries is not None else node.range.type.kind) == "list"
        key = _Local((*path, "@indices" if is_list else "@keys"), entries.key if entries is not None else None)
        value = _Local((*path, "@items" if is_list else "@values"), entries.value if entries is not None else None)
        bound = [key, value] if len(node.variables) == 2 else [value if is_list else key]
        with self._naming(node.variables[0], bound[0]), self._naming(node.variables[-1], bound[-1]):
            condition = self.visit(node.condition)
            return self.visit(node.step).plus(condition)

    def _bind(self, node: BindExpr) -> EstimateRange:
        value_cost = self.visit(node.value)
        path, size, entries = self._path(node.value), self._size(node.value), self._entries_of(node.value)
        # Upstream repeats an optional's expression, and binds names by a loop over an empty list.
        repeated = node.name == TARGET
        before = NOTHING if repeated else _LIST.plus(value_cost)
        with self._naming(node.name, _Local(path, size, entries, value_cost if repeated else ONE)):
            cost = before.plus(self.visit(node.body))
            self._copy_sizes(node, node.body)
        return cost

    # Sizes.

    def _size(self, node: Expr) -> EstimateRange | None:
        known = self._sizes.get(node)
        if known is None:
            known = _size_of_literal(node)
        if known is not None:
            return known
        if (told := self._size_at(self._path(node), node.type)) is not None:
            self._sizes[node] = told
            return told
        if _is_scalar(node.type):
            return ONE
        local = self._local(node.name) if isinstance(node, IdentExpr) else None
        return local.size if local is not None else None

    def _size_or_unknown(self, node: Expr) -> EstimateRange:
        return self._size(node) or UNKNOWN

    def _entries_of(self, node: Expr) -> _Entries | None:
        known = self._entries.get(node)
        if known is None and isinstance(node, IdentExpr) and (local := self._local(node.name)) is not None:
            return local.entries
        return known

    def _set_size(self, node: Expr, size: EstimateRange | None) -> None:
        if size is not None:
            self._sizes[node] = size

    def _set_entries(self, node: Expr, entries: _Entries | None) -> None:
        if entries is not None:
            self._entries[node] = entries

    def _copy_sizes(self, to: Expr, source: Expr) -> None:
        self._set_size(to, self._size(source))
        self._set_entries(to, self._entries_of(source))


def _size_of_literal(node: Expr) -> EstimateRange | None:
    match node:
        case LiteralExpr(value=value):
            return fixed_range(len(value)) if isinstance(value, (str, bytes)) else ONE
        case ListExpr():
            return fixed_range(len(node.elements))
        case MapExpr():
            return fixed_range(len(node.entries))
    return None


def _is_scalar(one: Type) -> bool:
    return one.kind in _SCALARS or (is_optional(one) and _is_scalar(one.params[0]))
