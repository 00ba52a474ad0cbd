# SPDX-License-Identifier: Apache-2.0
"""Validation of values against schemas: each place of a schema is compiled to a Checker once.

Order and messages are upstream's: type, combinations, text, number, items, enumeration, fields.
Ratcheting: violations of a value that is unchanged are dropped on update, wherever old and
new value can be correlated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kubeloop.api.meta.field_path import MAX_ERRORS, FieldErrors, FieldPath, quote
from kubeloop.api.structural.formats import FORMATS
from kubeloop.api.structural.go_regex import RegexError, compile_pattern, has_match
from kubeloop.api.structural.model import Schema
from kubeloop.api.structural.numbers import NumberLimits
from kubeloop.api.structural.problems import (
    SchemaViolations,
    count_violation,
    enum_violation,
    field_errors,
    format_violation,
    invalid_value,
    length_violation,
    missing_field,
    type_violation,
    unknown_field,
    violation_without_path,
)

_NOTHING: Final = object()
# Python types that have a schema type without further checks.
_PYTHON_TYPES: Final = {
    "string": (str,),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "integer": (int,),
    "number": (int, float),
}
_NUMERIC_FORMATS: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}


def type_name(value: Any) -> str:
    """Return a JSON value's type as schemas call it."""
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, int):
        return "integer"
    return "number" if isinstance(value, float) else "null"


class SchemaValidator:
    """Compiled constraints of one place of a schema."""

    def __init__(self, schema: Schema) -> None:
        self._types = _types_of(schema)
        self._expected = frozenset(kind for name in self._types for kind in _PYTHON_TYPES.get(name, ()))
        self._format = _format_of(schema, self._types)
        self._nullable = bool(schema.get("nullable"))
        self._enum: list[Any] = list(schema.get("enum") or ())
        self._text = _TextLimits(schema, self._format)
        self._numbers = NumberLimits(schema, self._types, self._format)
        self._combined = _Combined(schema)
        self._items = SchemaValidator(schema["items"]) if isinstance(schema.get("items"), Mapping) else None
        self._list_keys: tuple[str, ...] = ()
        if schema.get("x-kubernetes-list-type") == "map":
            self._list_keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        self._min_items, self._max_items = schema.get("minItems"), schema.get("maxItems")
        self._min_fields, self._max_fields = schema.get("minProperties"), schema.get("maxProperties")
        self._required: tuple[str, ...] = tuple(schema.get("required") or ())
        given = schema.get("properties") or {}
        self._fields = {name: SchemaValidator(given[name]) for name in sorted(given)}
        additional = schema.get("additionalProperties")
        self._additional = SchemaValidator(additional) if isinstance(additional, Mapping) else None
        self._closed = additional is False

    def validate(self, value: Any, base: FieldPath | None = None) -> FieldErrors:
        """Validate a new value."""
        found: SchemaViolations = []
        self.check(value, "", found)
        return field_errors(found, base)

    def validate_update(self, new: Any, old: Any, base: FieldPath | None = None) -> FieldErrors:
        """Validate a value that replaces an old one."""
        found: SchemaViolations = []
        self.check(new, "", found, old)
        return field_errors(found, base)

    def check(self, value: Any, name: str, found: SchemaViolations, old: Any = _NOTHING) -> None:
        """Append the violations of a value to `found`, none if it equals the old value."""
        before = len(found)
        self._check(value, name, found, old)
        if len(found) > before and old is not _NOTHING and _is_unchanged(value, old):
            del found[before:]

    def _check(self, value: Any, name: str, found: SchemaViolations, old: Any) -> None:
        if value is None:
            if self._types and not self._nullable:
                found.append(type_violation(name, ",".join(self._types), "null"))
            elif self._enum and not _is_among(value, self._enum):
                found.append(enum_violation(name, value, self._enum))
            return
        if self._types and type(value) not in self._expected:
            self._check_type(value, name, found)
        if self._combined.any:
            self._combined.check(value, name, found)
        if isinstance(value, str):
            if self._text.any:
                self._text.check(value, name, found)
        elif isinstance(value, (int, float)):
            if not isinstance(value, bool):
                self._numbers.check(value, name, found)
        elif isinstance(value, list):
            self._check_items(value, name, found, old)
        if self._enum and not _is_among(value, self._enum):
            found.append(enum_violation(name, value, self._enum))
        if isinstance(value, dict):
            self._check_fields(value, name, found, old)

    def _check_type(self, value: Any, name: str, found: SchemaViolations) -> None:
        types, got = self._types, type_name(value)
        fits = (
            got in types
            or (got == "integer" and "number" in types)
            or (got == "number" and "integer" in types and value.is_integer())
        )
        if fits:
            return
        if self._format and got not in ("string", "array"):
            formatted = {"integer": "int64", "number": "double"}.get(got, "")
            found.append(type_violation(name, self._format, formatted))
        else:
            found.append(type_violation(name, ",".join(types), got))

    def _check_items(self, value: list[Any], name: str, found: SchemaViolations, old: Any) -> None:
        if self._items is not None:
            known = self._by_keys(old) if self._list_keys and isinstance(old, list) else {}
            for index, item in enumerate(value):
                if len(found) >= MAX_ERRORS:
                    return
                was = known.get(self._key_of(item), _NOTHING) if known else _NOTHING
                self._items.check(item, f"{name}[{index}]", found, was)
        if self._min_items is not None and len(value) < self._min_items:
            found.append(invalid_value(name, len(value), f"should have at least {self._min_items} items"))
        if self._max_items is not None and len(value) > self._max_items:
            found.append(count_violation(name, len(value), self._max_items))

    def _by_keys(self, items: list[Any]) -> dict[str, Any]:
        return {self._key_of(item): item for item in items if isinstance(item, dict)}

    def _key_of(self, item: Any) -> str:
        return repr([item.get(key) for key in self._list_keys]) if isinstance(item, dict) else ""

    def _check_fields(self, value: dict[str, Any], name: str, found: SchemaViolations, old: Any) -> None:
        if self._min_fields is not None and len(value) < self._min_fields:
            found.append(invalid_value(name, len(value), f"should have at least {self._min_fields} properties"))
        if self._max_fields is not None and len(value) > self._max_fields:
            found.append(count_violation(name, len(value), self._max_fields))
        before: dict[str, Any] = old if isinstance(old, dict) else {}
        if self._additional is not None or self._closed:
            self._check_additional(value, name, found, before)
        prefix = f"{name}." if name else ""
        for field in self._present(value):
            self._fields[field].check(value[field], prefix + field, found, before.get(field, _NOTHING))
        for field in self._required:
            if field not in value:
                found.append(missing_field(f"{name}.{field}"))

    def _present(self, value: dict[str, Any]) -> Iterable[str]:
        """Return the declared fields that are present, by name; most objects have few of theirs."""
        declared = self._fields
        if 2 * len(value) < len(declared):
            return sorted(name for name in value if name in declared)
        return [name for name in declared if name in value]

    def _check_additional(
        self, value: dict[str, Any], name: str, found: SchemaViolations, before: dict[str, Any]
    ) -> None:
        for field in sorted(value):
            if field in self._fields:
                continue
            if len(found) >= MAX_ERRORS:
                return
            if self._additional is not None:
                self._additional.check(value[field], f"{name}.{field}", found, before.get(field, _NOTHING))
            else:
                found.append(unknown_field(name, field))


def _types_of(schema: Schema) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _format_of(schema: Schema, types: tuple[str, ...]) -> str:
    """Return the format if it is a supported one, else an empty string."""
    wanted: str = schema.get("format") or ""
    kind = types[0] if len(types) == 1 else ""
    if kind in ("", "string"):
        return wanted if wanted in FORMATS or wanted.replace("-", "") in FORMATS else ""
    return wanted if wanted in _NUMERIC_FORMATS.get(kind, ()) else ""


def _is_unchanged(new: Any, old: Any) -> bool:
    """Return True if JSON values are the same, also in their types: 0 is neither false nor 0.0."""
    if type(new) is not type(old):
        return False
    if isinstance(new, dict):
        return new.keys() == old.keys() and all(_is_unchanged(new[name], old[name]) for name in new)
    if isinstance(new, list):
        return len(new) == len(old) and all(map(_is_unchanged, new, old))
    return bool(new == old)


def _is_among(value: Any, allowed: list[Any]) -> bool:
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in allowed)


class _TextLimits:
    """Length, pattern and format of a string; reports the first violation, and the format's besides."""

    def __init__(self, schema: Schema, format: str) -> None:
        self._min, self._max = schema.get("minLength"), schema.get("maxLength")
        self._shown: str = schema.get("pattern") or ""
        self._pattern = None
        if self._shown:
            try:
                self._pattern = compile_pattern(self._shown)
            except RegexError:
                self._pattern = None  # definitions with such a pattern are rejected
        self._format = format
        self._is_well_formed = FORMATS.get(format) or FORMATS.get(format.replace("-", ""))
        limits = (self._min, self._max, self._pattern, self._is_well_formed)
        self.any = any(limit is not None for limit in limits)

    def check(self, value: str, name: str, found: SchemaViolations) -> None:
        if self._max is not None and len(value) > self._max:
            found.append(length_violation(name, self._max))
        elif self._min is not None and len(value) < self._min:
            found.append(invalid_value(name, value, f"should be at least {self._min} chars long"))
        elif self._pattern is not None and not has_match(self._pattern, value):
            found.append(invalid_value(name, value, f"should match '{self._shown}'"))
        if self._is_well_formed is not None and not self._is_well_formed(value):
            found.append(format_violation(name, self._format, value))


class _Combined:
    """Checker of allOf, anyOf, oneOf and not; inside them there is no ratcheting."""

    def __init__(self, schema: Schema) -> None:
        self._all = [SchemaValidator(one) for one in schema.get("allOf") or ()]
        self._some = [SchemaValidator(one) for one in schema.get("anyOf") or ()]
        self._one = [SchemaValidator(one) for one in schema.get("oneOf") or ()]
        self._not = SchemaValidator(schema["not"]) if isinstance(schema.get("not"), Mapping) else None
        self.any = bool(self._all or self._some or self._one or self._not)

    def check(self, value: Any, name: str, found: SchemaViolations) -> None:
        if self._some:
            self._check_some(value, name, found)
        if self._one:
            self._check_one(value, name, found)
        if self._all:
            self._check_all(value, name, found)
        if self._not is not None and not _tried(self._not, value, name):
            found.append(violation_without_path(f"{quote(name)} must not validate the schema (not)"))

    def _check_some(self, value: Any, name: str, found: SchemaViolations) -> None:
        failures = []
        for checker in self._some:
            failed = _tried(checker, value, name)
            if not failed:
                return
            failures.append(failed)
        found.append(violation_without_path(f"{quote(name)} must validate at least one schema (anyOf)"))
        found += _closest(failures)

    def _check_one(self, value: Any, name: str, found: SchemaViolations) -> None:
        outcomes = [_tried(checker, value, name) for checker in self._one]
        valid = sum(not failed for failed in outcomes)
        if valid == 1:
            return
        how_many = f"Found {valid} valid alternatives" if valid else "Found none valid"
        found.append(violation_without_path(f"{quote(name)} must validate one and only one schema (oneOf). {how_many}"))
        if not valid:
            found += _closest(outcomes)

    def _check_all(self, value: Any, name: str, found: SchemaViolations) -> None:
        outcomes = [_tried(checker, value, name) for checker in self._all]
        failed = [outcome for outcome in outcomes if outcome]
        if not failed:
            return
        for outcome in failed:
            found += outcome
        none = ". None validated" if len(failed) == len(outcomes) else ""
        found.append(violation_without_path(f"{quote(name)} must validate all the schemas (allOf){none}"))


def _closest(failures: list[SchemaViolations]) -> SchemaViolations:
    """Return the violations of the alternative with the fewest: the one most likely meant."""
    return min(failures, key=len)


def _tried(checker: SchemaValidator, value: Any, name: str) -> SchemaViolations:
    found: SchemaViolations = []
    checker.check(value, name, found)
    return found
