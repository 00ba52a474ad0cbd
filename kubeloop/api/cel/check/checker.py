# SPDX-License-Identifier: Apache-2.0
"""Type checker: finds the type of every subexpression and the overloads that its calls may resolve to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kubeloop.api.cel.check import types
from kubeloop.api.cel.check.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    STRING,
    Substitutions,
    Type,
    is_dyn,
    is_dyn_or_error,
    is_optional,
    list_of,
    map_of,
    optional_of,
)
from kubeloop.api.cel.environment import Environment, Overload
from kubeloop.api.cel.parse.syntax import (
    BindExpr,
    CallExpr,
    CompileError,
    CompileIssue,
    ComprehensionExpr,
    EntryExpr,
    Expr,
    IdentExpr,
    ListExpr,
    LiteralExpr,
    MapExpr,
    SelectExpr,
    StructExpr,
    descendants,
)
from kubeloop.api.cel.values import UInt

_LITERALS: Mapping[type, Type] = {
    bool: BOOL,
    int: INT,
    float: types.DOUBLE,
    str: STRING,
    bytes: types.BYTES,
    UInt: types.UINT,
    type(None): types.NULL,
}


def check(text: str, tree: Expr, environment: Environment) -> Type:
    """Return the type of an expression; annotates its tree. Raises CompileError with every problem."""
    checker = _Checker(environment)
    try:
        found = checker.check(tree)
    except RecursionError:
        raise CompileError(text, [CompileIssue(0, "expression is nested too deeply")]) from None
    if checker.problems:
        raise CompileError(text, sorted(checker.problems, key=lambda problem: problem.offset))
    for node in descendants(tree):
        node.type = checker.known.resolve(node.type, unknown_is_dyn=True)
    return checker.known.resolve(found, unknown_is_dyn=True)


class _Checker:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._scopes: list[dict[str, Type]] = []
        self._fresh = 0
        self.known = Substitutions()
        self.problems: list[CompileIssue] = []

    def check(self, node: Expr) -> Type:
        match node:
            case LiteralExpr():
                found = _LITERALS[type(node.value)]
            case IdentExpr():
                found = self._ident(node)
            case SelectExpr():
                found = self._select(node)
            case CallExpr():
                found = self._call(node)
            case ListExpr():
                found = self._list(node)
            case MapExpr():
                found = self._map(node)
            case StructExpr():
                found = self._object(node)
            case ComprehensionExpr():
                found = self._fold(node)
            case BindExpr():
                found = self._bind(node)
            case _:
                raise TypeError(type(node))
        node.type = found
        return found

    # Identifiers.

    def _ident(self, node: IdentExpr) -> Type:
        for scope in reversed(self._scopes):
            if node.name in scope:
                return scope[node.name]
        return self._global(node) or self._undeclared(node.offset, node.name)

    def _global(self, node: IdentExpr) -> Type | None:
        name = node.name.removeprefix(".")
        found = self._environment.variables.get(name)
        if found is None and (named := self._environment.type_names.get(name)) is not None:
            node.is_type = True
            return types.type_of(named)
        return found

    @contextmanager
    def _scope(self, names: Mapping[str, Type]) -> Iterator[None]:
        self._scopes.append(dict(names))
        yield
        self._scopes.pop()

    def _select(self, node: SelectExpr) -> Type:
        qualified = "" if node.is_test else _qualified(node)
        if qualified and self._is_free(qualified):
            whole = IdentExpr(node.offset, qualified)
            if (found := self._global(whole)) is not None:
                whole.type = found
                node.operand, node.field = whole, ""  # the whole chain is one name
                return found
        found = self._field_of(node, node.operand, node.field)
        return BOOL if node.is_test else self.known.resolve(found)

    def _is_free(self, qualified: str) -> bool:
        first = qualified.partition(".")[0]
        return not any(first in scope for scope in self._scopes)

    def _field_of(self, node: Expr, operand: Expr, field: str) -> Type:
        holder = self.known.resolve(self.check(operand))
        inner = holder.params[0] if is_optional(holder) else holder
        found = ERROR
        if inner.kind == "map":
            found = inner.params[1]
        elif inner.kind == "object":
            found = self._declared_field(node, inner.name, field)
        elif inner.kind == "variable":
            self._learn(DYN, inner)
            found = DYN
        else:
            if not is_dyn_or_error(inner):
                self._problem(node.offset, f"type '{inner}' does not support field selection")
            found = DYN
        return optional_of(found) if is_optional(holder) else found

    def _declared_field(self, node: Expr, name: str, field: str) -> Type:
        declared = self._environment.objects[name].fields.get(field)
        if declared is None:
            self._problem(node.offset, f"undefined field '{field}'")
            return ERROR
        if isinstance(node, SelectExpr):
            node.key = declared.key
        elif isinstance(node, CallExpr) and isinstance(written := node.args[1], LiteralExpr):
            written.value = declared.key
        return declared.type

    # Calls.

    def _call(self, node: CallExpr) -> Type:
        if node.function == "_?._":
            return self._optional_select(node)
        for arg in node.args:
            self.check(arg)
        functions = self._environment.functions
        if node.target is not None:
            prefix = _qualified(node.target)
            name = f"{prefix}.{node.function}".removeprefix(".")
            if prefix and name in functions and self._is_free(prefix):
                node.target, node.function = None, name
            else:
                self.check(node.target)
        overloads = functions.get(node.function.removeprefix("."))
        if overloads is None:
            return self._undeclared(node.offset, node.function)
        if node.function in ("_&&_", "_||_"):
            return self._all_boolean(node, overloads)
        return self._resolved(node, overloads)

    def _all_boolean(self, node: CallExpr, overloads: tuple[Overload, ...]) -> Type:
        node.overloads = overloads
        fits = True
        for arg in node.args:
            if not self._learn(arg.type, BOOL):
                self._mismatch(arg.offset, BOOL, arg.type)
                fits = False
        return BOOL if fits else ERROR

    def _resolved(self, node: CallExpr, overloads: tuple[Overload, ...]) -> Type:
        given = [operand.type for operand in node.operands]
        chosen: list[Overload] = []
        result: Type | None = None
        for overload in overloads:
            if overload.is_method != (node.target is not None):
                continue
            fresh = self._instantiated(overload)
            if not self.known.try_assign_all(given, [fresh.resolve(param) for param in overload.params]):
                continue
            chosen.append(overload)
            told = self.known.resolve(fresh.resolve(overload.result))
            if result is None:
                result = told
            elif not is_dyn(result) and told != result:
                result = DYN
        if result is None:
            self._no_overload(node, given)
            return ERROR
        node.overloads = tuple(chosen)
        return result

    def _instantiated(self, overload: Overload) -> Substitutions:
        return Substitutions({one: self._unknown() for one in sorted(overload.variables, key=str)})

    def _no_overload(self, node: CallExpr, given: list[Type]) -> None:
        shown = [str(self.known.resolve(one, unknown_is_dyn=True)) for one in given]
        target = f"{shown.pop(0)}." if node.target is not None else ""
        signature = f"{target}({', '.join(shown)})"
        self._problem(node.offset, f"found no matching overload for '{node.function}' applied to '{signature}'")

    def _optional_select(self, node: CallExpr) -> Type:
        operand, field = node.args
        assert isinstance(field, LiteralExpr)
        field.type = STRING
        found = self._field_of(node, operand, field.value)
        return found if is_optional(found) else optional_of(found)

    # Collection and object literals.

    def _list(self, node: ListExpr) -> Type:
        element: Type | None = None
        for index, one in enumerate(node.elements):
            element = self._joined(element, self._held(one, index in node.optional))
        return list_of(self._unknown() if element is None else element)

    def _map(self, node: MapExpr) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self._joined(key, self.check(entry.key))
            value = self._joined(value, self._held(entry.value, entry.is_optional))
        if key is None or value is None:
            return map_of(self._unknown(), self._unknown())
        return map_of(key, value)

    def _held(self, node: Expr, is_maybe: bool) -> Type:
        """Return the type of an element; for an optional one, that of its value."""
        found = self.check(node)
        if not is_maybe:
            return found
        if is_optional(found):
            return found.params[0]
        if not is_dyn(found):
            self._mismatch(node.offset, optional_of(found), found)
        return found

    def _joined(self, before: Type | None, found: Type) -> Type:
        """Return the common type of elements; only literals, not calls, require equal types."""
        if before is None:
            return found
        return types.most_general(before, found) if self._learn(before, found) else DYN

    def _object(self, node: StructExpr) -> Type:
        declared = self._environment.objects.get(node.type_name.removeprefix("."))
        if declared is None:
            return self._undeclared(node.offset, node.type_name)
        node.type_name = declared.name
        for entry in node.entries:
            self._initializer(declared.fields, entry)
        return types.object_named(declared.name)

    def _initializer(self, fields: Mapping[str, Any], entry: EntryExpr) -> None:
        found = self._held(entry.value, entry.is_optional)
        field = fields.get(entry.key)
        if field is None:
            self._problem(entry.offset, f"undefined field '{entry.key}'")
        elif not self._learn(field.type, found):
            said = f"expected type of field '{entry.key}' is '{field.type}' but provided type is '{found}'"
            self._problem(entry.offset, said)

    # Comprehensions.

    def _fold(self, node: ComprehensionExpr) -> Type:
        ranged = self.known.resolve(self.check(node.range))
        started = self.check(node.start)
        with self._scope({node.accumulator: started}):
            with self._scope(dict(zip(node.variables, self._iterated(node, ranged), strict=True))):
                self._must_be(node.condition, BOOL)
                self._must_be(node.step, started)
            return self.known.resolve(self.check(node.result))

    def _iterated(self, node: ComprehensionExpr, ranged: Type) -> tuple[Type, ...]:
        """Return the types of a loop's variables."""
        two = len(node.variables) == 2
        if ranged.kind == "list":
            return (INT, ranged.params[0]) if two else ranged.params
        if ranged.kind == "map":
            return ranged.params if two else ranged.params[:1]
        if ranged.kind in ("dyn", "error", "variable"):
            self._learn(DYN, ranged)
            return (DYN, DYN) if two else (DYN,)
        said = f"expression of type '{ranged}' cannot be range of a comprehension (must be list, map, or dynamic)"
        self._problem(node.range.offset, said)
        return (ERROR, ERROR) if two else (ERROR,)

    def _must_be(self, node: Expr, wanted: Type) -> None:
        found = self.check(node)
        if not self._learn(wanted, found):
            self._mismatch(node.offset, wanted, found)

    def _bind(self, node: BindExpr) -> Type:
        with self._scope({node.name: self.check(node.value)}):
            return self.check(node.body)

    # Substitutions and scopes.

    def _unknown(self) -> Type:
        self._fresh += 1
        return types.variable(f"_var{self._fresh}")

    def _learn(self, given: Type, wanted: Type) -> bool:
        return self.known.try_assign_all([given], [wanted])

    # Problems.

    def _problem(self, offset: int, message: str) -> None:
        self.problems.append(CompileIssue(offset, message))

    def _mismatch(self, offset: int, wanted: Type, found: Type) -> None:
        self._problem(offset, f"expected type '{wanted}' but found '{found}'")

    def _undeclared(self, offset: int, name: str) -> Type:
        self._problem(offset, f"undeclared reference to '{name}' (in container '')")
        return ERROR


def _qualified(node: Expr) -> str:
    """Return the qualified name that a chain of fields spells; empty if it is anything else."""
    if isinstance(node, IdentExpr):
        return node.name
    if isinstance(node, SelectExpr) and not node.is_test and (prefix := _qualified(node.operand)):
        return f"{prefix}.{node.field}"
    return ""
