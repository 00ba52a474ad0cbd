# SPDX-License-Identifier: Apache-2.0
"""Compiled validation rules of a schema: a tree of the places that have rules or lead to some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import msgspec

from kubeloop.api.cel.check.types import BOOL, STRING, Type, optional_of
from kubeloop.api.cel.cost.estimator import estimate_cost
from kubeloop.api.cel.environment import Environment
from kubeloop.api.cel.library.kubernetes import kubernetes_environment
from kubeloop.api.cel.parse.syntax import CompileError, IdentExpr, descendants
from kubeloop.api.cel.program import Program, compile_expression
from kubeloop.api.cel.values import CelError
from kubeloop.api.structural.cel.declarations import MAX_REQUEST, CelDeclaration, Declarations
from kubeloop.api.structural.field_paths import FieldPathError, relative_path
from kubeloop.api.structural.model import Schema

RULES: Final = "x-kubernetes-validations"


@dataclass(slots=True)
class ValidationRule:
    """Validation rule: its programs, or the reason why it does not compile."""

    text: str
    message: str
    message_text: str
    reason: str | None
    field_path: str = ""
    optional_old: bool = False
    program: Program | None = None
    error: str = ""
    cost: int = 0
    message_program: Program | None = None
    message_error: str = ""
    message_cost: int = 0
    uses_old: bool = False

    @property
    def display_text(self) -> str:
        """Name of the rule in messages."""
        return self.message.strip() if self.message else self.text.strip()


@dataclass(slots=True)
class RuleNode:
    """Place of a schema with rules, or with rules below."""

    declared: CelDeclaration
    rules: list[ValidationRule] = field(default_factory=list)
    is_resource: bool = False
    items: RuleNode | None = None
    values: RuleNode | None = None
    properties: dict[str, RuleNode] = field(default_factory=dict)

    @property
    def schema(self) -> Schema:
        """Schema of this place."""
        return self.declared.schema

    @property
    def max_cardinality(self) -> int:
        """Upper bound of such values in one request, if nothing else limits them."""
        return MAX_REQUEST // (self.declared.min_json_size + 1)

    @property
    def is_needed(self) -> bool:
        """True if there are rules here or below."""
        return bool(self.rules or self.items or self.values or self.properties)


def has_rules(schema: Any) -> bool:
    """Return True if there are rules at any place of a schema."""
    return any(node.get(RULES) for node in _places(schema))


def total_rule_length(schema: Schema) -> int:
    """Return the number of characters of all rules of a schema, with a minimum for each."""
    rules = [rule for node in _places(schema) for rule in node.get(RULES) or ()]
    return sum(20 + len(rule.get("rule") or "") + len(rule.get("messageExpression") or "") for rule in rules)


def _places(schema: Any) -> Iterator[Schema]:
    left = [schema]
    while left:
        node = left.pop()
        if isinstance(node, Mapping):
            yield node
            left += (node.get("properties") or {}).values()
            left += (node.get("items"), node.get("additionalProperties"))


@lru_cache(maxsize=64)
def rules_of(source: bytes) -> RuleNode | None:
    """Return the compiled rules of a schema in JSON, cached: those of a checked definition serve its objects too."""
    return compiled_rules(msgspec.json.decode(source))


def compiled_rules(schema: Schema) -> RuleNode | None:
    """Compile the rules of a schema; None if there are none."""
    if not has_rules(schema):
        return None
    declarations = Declarations(schema)
    return _Compiler(declarations).node(declarations.root, is_resource=True)


class _Compiler:
    def __init__(self, declarations: Declarations) -> None:
        self._environment = kubernetes_environment().extend({}, declarations.objects.values())

    def node(self, declared: CelDeclaration | None, is_resource: bool = False) -> RuleNode | None:
        if declared is None or not has_rules(declared.schema):
            return None
        found = RuleNode(declared, is_resource=is_resource)
        found.rules = [self._rule(rule, declared) for rule in declared.schema.get(RULES) or ()]
        if declared.type.kind == "list":
            found.items = self._inner(declared.element)
        elif declared.type.kind == "map":
            found.values = self._inner(declared.element)
        for name, inner in declared.properties.items():
            if (below := self._inner(inner)) is not None:
                found.properties[name] = below
        return found if found.is_needed else None

    def _inner(self, declared: CelDeclaration | None) -> RuleNode | None:
        if declared is None:
            return None
        return self.node(declared, bool(declared.schema.get("x-kubernetes-embedded-resource")))

    def _rule(self, given: Mapping[str, Any], declared: CelDeclaration) -> ValidationRule:
        rule = ValidationRule(
            given.get("rule") or "",
            given.get("message") or "",
            given.get("messageExpression") or "",
            given.get("reason"),
            optional_old=bool(given.get("optionalOldSelf")),
        )
        if not rule.text.strip():
            return rule
        environment = self._environment_of(declared.type, rule.optional_old)
        self._compile(rule, environment, declared)
        if rule.program is not None and rule.message_text:
            self._compile_message(rule, environment, declared)
        if path := given.get("fieldPath"):
            try:
                rule.field_path = relative_path(path, declared.schema)
            except FieldPathError:
                rule.field_path = ""  # rejected with the definition
        return rule

    def _environment_of(self, self_type: Type, optional_old: bool) -> Environment:
        old = optional_of(self_type) if optional_old else self_type
        return self._environment.extend({"self": self_type, "oldSelf": old})

    def _compile(self, rule: ValidationRule, environment: Environment, declared: CelDeclaration) -> None:
        try:
            program = compile_expression(rule.text, environment)
        except CompileError as error:
            rule.error = f"compilation failed: {error}"
            return
        except CelError as error:
            rule.error = f"program instantiation failed: {error}"
            return
        if program.type != BOOL:
            rule.error = "cel expression must evaluate to a bool"
            return
        rule.program = program
        rule.uses_old = any(
            isinstance(node, IdentExpr) and node.name == "oldSelf" for node in descendants(program.tree)
        )
        rule.cost = estimate_cost(program.tree, declared.size_at).max

    def _compile_message(self, rule: ValidationRule, environment: Environment, declared: CelDeclaration) -> None:
        try:
            program = compile_expression(rule.message_text, environment)
        except CompileError as error:
            rule.message_error = f"messageExpression compilation failed: {error}"
            return
        except CelError as error:
            rule.message_error = f"messageExpression instantiation failed: {error}"
            return
        if program.type != STRING:
            rule.message_error = "messageExpression must evaluate to a string"
            return
        rule.message_program = program
        rule.message_cost = estimate_cost(program.tree, declared.size_at).max


def nodes_of(root: RuleNode) -> Iterator[RuleNode]:
    """Yield all places with rules at them or below."""
    left = [root]
    while left:
        node = left.pop()
        yield node
        left += [below for below in (node.items, node.values, *node.properties.values()) if below is not None]
