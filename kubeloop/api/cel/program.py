"""Expressions that can be evaluated: a tree that was checked becomes closures, each of which counts what it costs.

Costs are cel-go's: a name or a field is one, a list ten, a map thirty, an object forty, a call what its overload says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kubeloop.api.cel.checker import check
from kubeloop.api.cel.dispatch import dispatcher_of
from kubeloop.api.cel.environment import Environment
from kubeloop.api.cel.parser import parse
from kubeloop.api.cel.syntax import (
    Bind,
    Call,
    Fold,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    ObjectNode,
    Select,
)
from kubeloop.api.cel.types import Type
from kubeloop.api.cel.values import NONE, Cancelled, CelError, Optional, is_list

LIST_COST: Final = 10
MAP_COST: Final = 30
OBJECT_COST: Final = 40
CALL_LIMIT: Final = 1_000_000  # upstream's, for one evaluation


class Frame:
    """One evaluation: its variables, and how much it has cost so far."""

    __slots__ = ("cost", "limit", "locals", "variables")

    def __init__(self, variables: Mapping[str, Any], limit: int, size: int) -> None:
        self.variables = variables
        self.locals: list[Any] = [None] * size
        self.cost = 0
        self.limit = limit

    def spend(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise Cancelled("operation cancelled: actual cost limit exceeded")


Step = Callable[[Frame], Any]


class Program:
    """An expression, ready to be evaluated any number of times."""

    __slots__ = ("_run", "_size", "text", "tree", "type")

    def __init__(self, text: str, tree: Node, type: Type) -> None:
        self.text = text
        self.tree = tree
        self.type = type
        compiler = _Compiler()
        self._run = compiler.step(tree)
        self._size = compiler.size

    def evaluate(self, variables: Mapping[str, Any], limit: int = CALL_LIMIT) -> tuple[Any, int]:
        """The value and what it cost. Raises CelError, which tells what it cost as `cost`."""
        frame = Frame(variables, limit, self._size)
        try:
            return self._run(frame), frame.cost
        except CelError as error:
            error.cost = frame.cost
            raise
        except RecursionError:
            raise Cancelled("operation cancelled: nested too deeply") from None


def compiled(text: str, environment: Environment) -> Program:
    """Raises CompileError."""
    tree = parse(text)
    return Program(text, tree, check(text, tree, environment))


class _Compiler:
    def __init__(self) -> None:
        self._scope: dict[str, int] = {}
        self.size = 0

    def step(self, node: Node) -> Step:
        match node:
            case Literal(value=value):
                return lambda frame: value
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

    def _type_value(self, described: Type) -> Step:
        value = Type(described.kind, described.name)  # of what it holds, nothing is known at run time
        return lambda frame: value

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
            return lambda frame: _present(operand(frame), key)

        def select(frame: Frame) -> Any:
            held = operand(frame)
            frame.spend(1)
            return field_of(held, key)

        return select

    # Calls.

    def _call(self, node: Call) -> Step:
        special = _SPECIAL.get(node.function)
        operands = [self.step(operand) for operand in node.operands]
        if special is not None:
            return special(operands)
        if node.function == "_?._":
            return self._optional_select(node)
        dispatch = dispatcher_of(node.function, node.overloads)
        if len(operands) == 1:
            (only,) = operands
            return lambda frame: dispatch(frame, (only(frame),))
        if len(operands) == 2:
            left, right = operands
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
                return _through(held, key)
            return Optional(field_of(held, key)) if _present(held, key) else NONE

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

        return make

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

        return make

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
        ranged, start = self.step(node.range), self.step(node.start)
        outer = dict(self._scope)
        accumulator = self._named(node.accumulator)
        after_start = dict(self._scope)
        slots = [self._named(name) for name in node.variables]
        condition, step = self.step(node.condition), self.step(node.step)
        appended = _appended(node)
        self._scope = after_start
        result = self.step(node.result)
        self._scope = outer

        def fold(frame: Frame) -> Any:
            values = ranged(frame)
            places = frame.locals
            places[accumulator] = start(frame)
            for bound in _iterated(values, len(slots)):
                for slot, value in zip(slots, bound, strict=True):
                    places[slot] = value
                if condition(frame) is False:
                    break
                places[accumulator] = _settled(step, frame)
            return result(frame)

        return fold if appended is None else self._collecting(node, ranged, slots, accumulator, appended, result)

    def _collecting(
        self,
        node: Fold,
        ranged: Step,
        slots: list[int],
        accumulator: int,
        parts: tuple[Node | None, Node],
        result: Step,
    ) -> Step:
        """A loop that adds to a list: in place, because nobody else has it yet."""
        outer = dict(self._scope)
        self._scope.update({node.accumulator: accumulator, **dict(zip(node.variables, slots, strict=True))})
        predicate = self.step(parts[0]) if parts[0] is not None else None
        value = self.step(parts[1])
        self._scope = outer

        def collect(frame: Frame) -> Any:
            values = ranged(frame)
            places = frame.locals
            made: list[Any] = []
            frame.spend(LIST_COST)
            for bound in _iterated(values, len(slots)):
                for slot, one in zip(slots, bound, strict=True):
                    places[slot] = one
                if predicate is not None and not _truth(predicate(frame)):
                    frame.spend(1)  # the list so far is named
                    continue
                made.append(value(frame))
                frame.spend(LIST_COST + 2)  # a list of one, named, and added to the rest
            places[accumulator] = made
            return result(frame)

        return collect

    def _bind(self, node: Bind) -> Step:
        value = self.step(node.value)
        outer = dict(self._scope)
        slot = self._named(node.name)
        body = self.step(node.body)
        self._scope = outer

        def bind(frame: Frame) -> Any:
            frame.locals[slot] = value(frame)
            return body(frame)

        return bind


def _appended(node: Fold) -> tuple[Node | None, Node] | None:
    """For a loop that does nothing but add to a list: on which condition, and what."""
    step, predicate = node.step, None
    if not isinstance(node.start, ListNode) or node.start.elements:
        return None
    if isinstance(step, Call) and step.function == "_?_:_":
        predicate, step = step.args[0], step.args[1]
    if not isinstance(step, Call) or step.function != "_+_":
        return None
    return predicate, _only(step.args[1])


def _only(node: Node) -> Node:
    assert isinstance(node, ListNode)
    return node.elements[0]


def _iterated(values: Any, variables: int) -> Sequence[tuple[Any, ...]] | Any:
    if isinstance(values, Mapping):
        return list(values.items()) if variables == 2 else [(key,) for key in values]
    if not is_list(values):
        raise CelError("no such overload")
    return list(enumerate(values)) if variables == 2 else [(value,) for value in values]


def _settled(step: Step, frame: Frame) -> Any:
    """The next state of a loop, which may be an error: a later element may make up for it."""
    try:
        return step(frame)
    except Cancelled:
        raise
    except CelError as error:
        return error


# Operators that do not evaluate all of their operands.


def _and(terms: list[Step]) -> Step:
    return _logical(terms, decisive=False)


def _or(terms: list[Step]) -> Step:
    return _logical(terms, decisive=True)


def _logical(terms: list[Step], decisive: bool) -> Step:
    def decide(frame: Frame) -> bool:
        failure: CelError | None = None
        for term in terms:
            try:
                if _truth(term(frame)) is decisive:
                    return decisive
            except Cancelled:
                raise
            except CelError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return not decisive

    return decide


def _conditional(operands: list[Step]) -> Step:
    condition, yes, no = operands
    return lambda frame: yes(frame) if _truth(condition(frame)) else no(frame)


def _not_strictly_false(operands: list[Step]) -> Step:
    (operand,) = operands

    def test(frame: Frame) -> bool:
        frame.spend(1)
        try:
            return operand(frame) is not False
        except Cancelled:
            raise
        except CelError:
            return True

    return test


_SPECIAL: Final[dict[str, Callable[[list[Step]], Step]]] = {
    "_&&_": _and,
    "_||_": _or,
    "_?_:_": _conditional,
    "@not_strictly_false": _not_strictly_false,
}


def _truth(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise CelError("no such overload")


def _held(value: Any) -> Optional:
    if not isinstance(value, Optional):
        raise CelError("cannot initialize optional entry from non-optional value")
    return value


# Fields.


def field_of(held: Any, key: str) -> Any:
    """A field of an object, an entry of a map, or what an optional one of them holds there."""
    if isinstance(held, Mapping):
        try:
            return held[key]
        except KeyError:
            raise CelError(f"no such key: {key}") from None
    if isinstance(held, Optional):
        return _through(held, key)
    raise CelError("no such overload")


def _through(held: Optional, key: str) -> Optional:
    if not held.has_value or not _present(held.value, key):
        return NONE
    return Optional(field_of(held.value, key))


def _present(held: Any, key: str) -> bool:
    if isinstance(held, Mapping):
        return key in held
    if isinstance(held, Optional):
        return held.has_value and _present(held.value, key)
    raise CelError("no such overload")
