"""From a tree that was checked to closures, each of which counts what it costs.

Costs are cel-go's: a name or a field is one, a list ten, a map thirty, an object forty, a call what its overload says.
What consists of literals alone is made once, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from kubeloop.api.cel.dispatch import dispatcher_of
from kubeloop.api.cel.evaluation import Constant, Frame, Step, field_of, present, through
from kubeloop.api.cel.logic import SPECIAL, settled, truth
from kubeloop.api.cel.loops import LIST_COST, MAP_COST, Addition, addition_of, iterated
from kubeloop.api.cel.macros import TARGET
from kubeloop.api.cel.syntax import Bind, Call, Fold, Ident, ListNode, Literal, MapNode, Node, ObjectNode, Select
from kubeloop.api.cel.types import Type
from kubeloop.api.cel.values import NONE, CelError, Optional, contains, is_list

OBJECT_COST: Final = 40
_ENOUGH: Final = 1_000_000  # for what is made of literals
_CONVERSIONS: Final = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)


class Compiler:
    def __init__(self) -> None:
        self._scope: dict[str, int] = {}
        self.size = 0

    def step(self, node: Node) -> Step:
        match node:
            case Literal(value=value):
                return Constant(value)
            case Ident(name=name) if node.type.kind == "type" and node.is_type:
                return self._type_value(node.type.params[0])
            case Ident(name=name):
                return self._ident(name)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case ObjectNode():
                return self._object(node)
            case Fold():
                return self._fold(node)
            case Bind():
                return self._bind(node)
        raise TypeError(type(node))

    # Names.

    def _ident(self, name: str) -> Step:
        slot = self._scope.get(name)
        if slot is not None and name == TARGET:
            return self._repeated(slot, self._scope[f"{name} costs"])
        if slot is not None:

            def local(frame: Frame) -> Any:
                frame.spend(1)
                value = frame.locals[slot]
                if isinstance(value, CelError):
                    raise value
                return value

            return local
        name = name.removeprefix(".")

        def variable(frame: Frame) -> Any:
            frame.spend(1)
            try:
                return frame.variables[name]
            except KeyError:
                raise CelError(f"no such attribute(s): {name}") from None

        return variable

    def _repeated(self, slot: int, paid: int) -> Step:
        def local(frame: Frame) -> Any:
            frame.spend(frame.locals[paid])
            return frame.locals[slot]

        return local

    def _type_value(self, described: Type) -> Step:
        value = Type(described.kind, described.name)  # of what it holds, nothing is known at run time
        return Constant(value)

    @contextmanager
    def _inner(self) -> Iterator[None]:
        """Names that are given here are forgotten afterwards."""
        outer = dict(self._scope)
        yield
        self._scope = outer

    def _named(self, name: str) -> int:
        """A new place for a local variable."""
        self._scope[name] = self.size
        self.size += 1
        return self._scope[name]

    def _select(self, node: Select) -> Step:
        if not node.field:
            return self.step(node.operand)
        operand, key = self.step(node.operand), node.key or node.field
        if node.is_test:
            return lambda frame: present(operand(frame), key)

        def select(frame: Frame) -> Any:
            held = operand(frame)
            frame.spend(1)
            return field_of(held, key)

        return select

    # Calls.

    def _call(self, node: Call) -> Step:
        if node.function == "_?._":
            return self._optional_select(node)
        operands = [self.step(operand) for operand in node.operands]
        if (special := SPECIAL.get(node.function)) is not None:
            return special(operands)
        dispatch = dispatcher_of(node.function, node.overloads)
        if len(operands) == 1:
            (only,) = operands
            if isinstance(only, Constant) and node.function in _CONVERSIONS:
                return Constant(dispatch(Frame({}, _ENOUGH, 0), (only.value,)))
            return lambda frame: dispatch(frame, (only(frame),))
        if len(operands) == 2:
            left, right = operands
            if isinstance(right, Constant) and _is_fixed_list(node, right.value):
                return _member_of(right.value, left)
            return lambda frame: dispatch(frame, (left(frame), right(frame)))
        return lambda frame: dispatch(frame, tuple([operand(frame) for operand in operands]))

    def _optional_select(self, node: Call) -> Step:
        operand, field = self.step(node.args[0]), node.args[1]
        assert isinstance(field, Literal)
        key = field.value

        def select(frame: Frame) -> Any:
            held = operand(frame)
            frame.spend(1)
            if isinstance(held, Optional):
                return through(held, key)
            return Optional(field_of(held, key)) if present(held, key) else NONE

        return select

    # Collections and objects.

    def _list(self, node: ListNode) -> Step:
        elements = [self.step(element) for element in node.elements]
        optional = node.optional

        def make(frame: Frame) -> Any:
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

    def _map(self, node: MapNode) -> Step:
        entries = [(self.step(entry.key), self.step(entry.value), entry.is_optional) for entry in node.entries]

        def make(frame: Frame) -> Any:
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

    def _object(self, node: ObjectNode) -> Step:
        entries = [(entry.key, self.step(entry.value), entry.is_optional) for entry in node.entries]

        def make(frame: Frame) -> Any:
            made: dict[str, Any] = {}
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

    def _fold(self, node: Fold) -> Step:
        if (addition := addition_of(node)) is not None:
            return self._collecting(node, addition)
        ranged, start = self.step(node.range), self.step(node.start)
        with self._inner():
            accumulator = self._named(node.accumulator)
            with self._inner():
                slots = [self._named(name) for name in node.variables]
                condition, step = self.step(node.condition), self.step(node.step)
            result = self.step(node.result)

        def fold(frame: Frame) -> Any:
            values = ranged(frame)
            places = frame.locals
            places[accumulator] = start(frame)
            for bound in iterated(values, len(slots)):
                for slot, value in zip(slots, bound, strict=True):
                    places[slot] = value
                if condition(frame) is False:
                    break
                places[accumulator] = settled(step, frame)
            return result(frame)

        return fold

    def _collecting(self, node: Fold, addition: Addition) -> Step:
        """A loop that adds to a list or map: in place, because nobody else has it yet."""
        ranged = self.step(node.range)
        with self._inner():
            slots = [self._named(name) for name in node.variables]
            predicate = self.step(addition.predicate) if addition.predicate is not None else None
            parts = [self.step(part) for part in addition.parts]
        add, cost = addition.add, addition.cost
        if isinstance(node.start, ListNode) and isinstance(parts[0], Constant):
            cost -= LIST_COST  # the list of one is always the same

        def collect(frame: Frame) -> Any:
            values = ranged(frame)
            places = frame.locals
            made = addition.empty()
            for bound in iterated(values, len(slots)):
                for slot, one in zip(slots, bound, strict=True):
                    places[slot] = one
                if predicate is not None and not truth(predicate(frame)):
                    frame.spend(1)  # what there is so far is named
                    continue
                add(made, *[part(frame) for part in parts])
                frame.spend(cost)
            frame.spend(1)  # the result is named
            return made

        return collect

    def _bind(self, node: Bind) -> Step:
        value = self.step(node.value)
        with self._inner():
            slot = self._named(node.name)
            paid = self._named(f"{node.name} costs")
            body = self.step(node.body)

        def bind(frame: Frame) -> Any:
            frame.locals[slot] = value(frame)
            return body(frame)

        def bind_repeated(frame: Frame) -> Any:
            """Upstream evaluates the expression wherever the name stands: so much is paid there, not here."""
            before = frame.cost
            frame.locals[slot] = value(frame)
            frame.locals[paid] = frame.cost - before
            frame.cost = before
            return body(frame)

        return bind_repeated if node.name == TARGET else bind


def _is_fixed_list(node: Call, values: Any) -> bool:
    """Whether it is asked for what a list of literals has."""
    if not any(overload.name == "in_list" for overload in node.overloads) or not is_list(values):
        return False
    return all(isinstance(value, (bool, int, float, str)) for value in values)


def _member_of(values: Sequence[Any], wanted: Step) -> Step:
    """Costs nothing, however long the list."""
    if not values:
        return Constant(False)
    return lambda frame: contains(values, wanted(frame))


def _made_once(make: Step, parts: Sequence[Step]) -> Step:
    return Constant(make(Frame({}, _ENOUGH, 0))) if all(isinstance(part, Constant) for part in parts) else make


def _held(value: Any) -> Optional:
    if not isinstance(value, Optional):
        raise CelError("cannot initialize optional entry from non-optional value")
    return value
