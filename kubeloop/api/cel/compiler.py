# SPDX-License-Identifier: Apache-2.0
"""Compiler from a checked tree to closures, each of which counts its cost.

Costs are cel-go's: a name or a field is one, a list ten, a map thirty, an object forty, a call as its overload says.
Constant expressions are evaluated once, and cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from kubeloop.api.cel.attributes import (
    accumulated,
    field,
    has_field,
    has_own_cost,
    is_attribute,
    is_object_selection,
    local,
    local_with_unit_cost,
    optional_field,
    repeated_binding,
    variable,
    with_unit_cost,
)
from kubeloop.api.cel.check.types import Type
from kubeloop.api.cel.comprehensions import (
    LIST_COST,
    MAP_COST,
    Addition,
    Quantifier,
    addition_of,
    round_iterator,
)
from kubeloop.api.cel.dispatch import Dispatch, dispatcher_of
from kubeloop.api.cel.evaluation import Constant, ExecutionFrame, Step
from kubeloop.api.cel.logic import SPECIAL, as_bool, conditional, next_accumulator
from kubeloop.api.cel.parse.macros import RESULT, TARGET
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
from kubeloop.api.cel.values import Cancelled, CelError, ConstructedObject, Optional, contains, is_list
from kubeloop.api.cel.visitor import Visitor
from kubeloop.api.structural.go_regex import RegexError, compile_pattern

OBJECT_COST: Final = 40
_ENOUGH: Final = 1_000_000  # budget of constant expressions
_BY_PATTERN: Final = frozenset(("matches", "find", "findAll"))
_CONVERSIONS: Final = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)


class Compiler(Visitor[Step]):
    """Visitor that compiles each node to a step."""

    def __init__(self) -> None:
        self._scope: dict[str, int] = {}
        self.size = 0

    def _literal(self, node: LiteralExpr) -> Step:
        return Constant(node.value)

    # Identifiers.

    def _ident(self, node: IdentExpr) -> Step:
        name = node.name
        if node.is_type:
            return self._type_value(node.type.params[0])
        if name == TARGET:
            return repeated_binding(self._scope[name], self._scope[f"{name} costs"])
        if name in self._scope and name != RESULT:
            return local_with_unit_cost(self._scope[name])
        return self._whole(node)

    def _select(self, node: SelectExpr) -> Step:
        if not node.field:
            return self.visit(node.operand)  # the whole chain is one name
        if node.is_test:
            return has_field(self._chained(node.operand), node.key or node.field, is_object_selection(node.operand))
        return self._whole(node)

    def _whole(self, node: Expr) -> Step:
        """Compile a chain whose value is used."""
        return with_unit_cost(self._attribute(node)) if has_own_cost(node) else self._attribute(node)

    def _chained(self, node: Expr) -> Step:
        """Compile the operand of a chain or the result of a conditional, without its own cost."""
        return self._attribute(node) if is_attribute(node) else self.visit(node)

    def _attribute(self, node: Expr) -> Step:
        match node:
            case IdentExpr(name=name):
                slot = self._scope.get(name)
                if slot is None:
                    return variable(name.removeprefix("."))
                return accumulated(slot) if name == RESULT else local(slot)
            case SelectExpr(operand=operand):
                return field(self._chained(operand), node.key or node.field, is_object_selection(operand))
            case CallExpr(function="_?_:_", args=[condition, yes, no]):
                return conditional(self.visit(condition), self._chained(yes), self._chained(no))
            case CallExpr(function="_?._", args=[operand, LiteralExpr(value=key)]):
                return optional_field(self._chained(operand), key, is_object_selection(operand))
            case CallExpr(args=[operand, index]):
                dispatch = dispatcher_of(node.function, node.overloads, [one.type for one in node.operands])
                held, key_of = self._chained(operand), self._chained(index)
                return lambda frame: dispatch(frame, (held(frame), key_of(frame)))
        raise TypeError(type(node))

    def _type_value(self, described: Type) -> Step:
        value = Type(described.kind, described.name)  # element types are unknown at run time
        return Constant(value)

    @contextmanager
    def _inner(self) -> Iterator[None]:
        """Open an inner scope; its names are dropped at the end."""
        outer = dict(self._scope)
        yield
        self._scope = outer

    def _named(self, name: str) -> int:
        """Return a new slot for a local variable."""
        self._scope[name] = self.size
        self.size += 1
        return self._scope[name]

    # Calls.

    def _call(self, node: CallExpr) -> Step:
        if is_attribute(node):
            return self._whole(node)
        operands = [self.visit(operand) for operand in node.operands]
        if (special := SPECIAL.get(node.function)) is not None:
            return special(operands)
        if node.function in _BY_PATTERN and isinstance(operands[1], Constant):
            _check_pattern(operands[1].value)
        dispatch = dispatcher_of(node.function, node.overloads, [one.type for one in node.operands])
        if len(operands) == 1:
            (only,) = operands
            if isinstance(only, Constant) and node.function in _CONVERSIONS:
                return Constant(dispatch(ExecutionFrame({}, _ENOUGH, 0), (only.value,)))
            return _strict_unary(dispatch, only)
        if len(operands) == 2:
            left, right = operands
            if isinstance(right, Constant) and _is_fixed_list(node, right.value):
                return _member_of(right.value, left)
            return _strict_binary(dispatch, left, right)
        return lambda frame: dispatch(frame, tuple([operand(frame) for operand in operands]))

    # Collections and objects.

    def _list(self, node: ListExpr) -> Step:
        elements = [self.visit(element) for element in node.elements]
        optional = node.optional

        def make(frame: ExecutionFrame) -> Any:
            made = []
            for index, element in enumerate(elements):
                value = element(frame)
                if index not in optional:
                    made.append(value)
                elif _held(value).has_value:
                    made.append(value.value)
            frame.spend(LIST_COST)
            return made

        return _made_once(make, elements)

    def _map(self, node: MapExpr) -> Step:
        entries = [(self.visit(entry.key), self.visit(entry.value), entry.is_optional) for entry in node.entries]

        def make(frame: ExecutionFrame) -> Any:
            made: dict[Any, Any] = {}
            for key_of, value_of, is_optional in entries:
                key, value = key_of(frame), value_of(frame)
                if key in made:
                    raise CelError(f"Failed with repeated key {key}")
                if not is_optional:
                    made[key] = value
                elif _held(value).has_value:
                    made[key] = value.value
            frame.spend(MAP_COST)
            return made

        return _made_once(make, [part for entry in entries for part in entry[:2]])

    def _object(self, node: StructExpr) -> Step:
        entries = [(entry.key, self.visit(entry.value), entry.is_optional) for entry in node.entries]
        type_name = node.type_name

        def make(frame: ExecutionFrame) -> Any:
            made = ConstructedObject(type_name)
            for key, value_of, is_optional in entries:
                value = value_of(frame)
                if not is_optional:
                    made[key] = value
                elif _held(value).has_value:
                    made[key] = value.value
            frame.spend(OBJECT_COST)
            return made

        return make

    # Comprehensions.

    def _fold(self, node: ComprehensionExpr) -> Step:
        if (addition := addition_of(node)) is not None:
            return self._collecting(node, addition)
        if (quantifier := Quantifier.of(node)) is not None:
            return self._deciding(node, quantifier)
        ranged, start = self.visit(node.range), self.visit(node.start)
        with self._inner():
            accumulator = self._named(node.accumulator)
            with self._inner():
                begin = round_iterator([self._named(name) for name in node.variables])
                condition, step = self.visit(node.condition), self.visit(node.step)
            result = self.visit(node.result)

        def fold(frame: ExecutionFrame) -> Any:
            values = ranged(frame)
            places = frame.locals
            places[accumulator] = start(frame)
            for _ in begin(frame, values):
                if condition(frame) is False:
                    break
                places[accumulator] = next_accumulator(step, frame)
            return result(frame)

        return fold

    def _deciding(self, node: ComprehensionExpr, quantifier: Quantifier) -> Step:
        """Compile a loop for `all` or `exists`; errors count only if no element decides."""
        ranged = self.visit(node.range)
        with self._inner():
            begin = round_iterator([self._named(name) for name in node.variables])
            predicate = self.visit(quantifier.predicate)
        decisive, looking = quantifier.decisive, quantifier.test_cost

        def decide(frame: ExecutionFrame) -> bool:
            failure: CelError | None = None
            decided = False
            for _ in begin(frame, ranged(frame)):
                frame.spend(looking)
                if decided:
                    break
                frame.cost += 1  # the accumulator is an identifier
                try:
                    decided = as_bool(predicate(frame)) is decisive
                except Cancelled:
                    raise
                except CelError as error:
                    failure = failure or error
            frame.cost += 1  # the result is an identifier
            if failure is not None and not decided:
                raise failure
            return decisive if decided else not decisive

        return decide

    def _collecting(self, node: ComprehensionExpr, addition: Addition) -> Step:
        """Compile a loop that adds to a list or map, in place because it is not shared yet."""
        ranged = self.visit(node.range)
        with self._inner():
            begin = round_iterator([self._named(name) for name in node.variables])
            predicate = self.visit(addition.predicate) if addition.predicate is not None else None
            parts = [self.visit(part) for part in addition.parts]
        add, cost = addition.add, addition.cost
        if isinstance(node.start, ListExpr) and isinstance(parts[0], Constant):
            cost -= LIST_COST  # the one-element list is constant

        def collect(frame: ExecutionFrame) -> Any:
            made = addition.empty()
            for _ in begin(frame, ranged(frame)):
                if predicate is not None and not as_bool(predicate(frame)):
                    continue
                add(made, *[part(frame) for part in parts])
                frame.spend(cost)
            frame.cost += 1  # the result is an identifier
            return made

        return collect

    def _bind(self, node: BindExpr) -> Step:
        value = self.visit(node.value)
        with self._inner():
            slot = self._named(node.name)
            paid = self._named(f"{node.name} costs")
            body = self.visit(node.body)

        def bind(frame: ExecutionFrame) -> Any:
            frame.locals[slot] = value(frame)
            return body(frame)

        def bind_repeated(frame: ExecutionFrame) -> Any:
            """Upstream evaluates the expression wherever the name stands: so much is paid there, not here."""
            before = frame.cost
            frame.locals[slot] = value(frame)
            frame.locals[paid] = frame.cost - before
            frame.cost = before
            return body(frame)

        return bind_repeated if node.name == TARGET else bind


def _strict_unary(dispatch: Dispatch, only: Step) -> Step:
    def call(frame: ExecutionFrame) -> Any:
        try:
            value = only(frame)
        except Cancelled:
            raise
        except CelError:
            frame.spend(1)  # a call costs one even without operands
            raise
        return dispatch(frame, (value,))

    return call


def _strict_binary(dispatch: Dispatch, left: Step, right: Step) -> Step:
    def call(frame: ExecutionFrame) -> Any:
        try:
            values = (left(frame), right(frame))
        except Cancelled:
            raise
        except CelError:
            frame.spend(1)
            raise
        return dispatch(frame, values)

    return call


def _check_pattern(pattern: Any) -> None:
    """Validate a literal pattern at compile time."""
    try:
        compile_pattern(pattern)
    except RegexError as error:
        raise CelError(str(error)) from None


def _is_fixed_list(node: CallExpr, values: Any) -> bool:
    """Return True for a membership test in a list of literals."""
    if not any(overload.name == "in_list" for overload in node.overloads) or not is_list(values):
        return False
    return all(isinstance(value, (bool, int, float, str)) for value in values)


def _member_of(values: Sequence[Any], wanted: Step) -> Step:
    """Return a step that tests membership; it costs nothing, however long the list."""
    if not values:
        return Constant(False)
    return lambda frame: contains(values, wanted(frame))


def _made_once(make: Step, parts: Sequence[Step]) -> Step:
    return Constant(make(ExecutionFrame({}, _ENOUGH, 0))) if all(isinstance(part, Constant) for part in parts) else make


def _held(value: Any) -> Optional:
    if not isinstance(value, Optional):
        raise CelError("cannot initialize optional entry from non-optional value")
    return value
