# SPDX-License-Identifier: Apache-2.0
"""Structural schemas: random schemas of custom resources with defaults, rules and extensions, and values for them."""

from __future__ import annotations

import copy
import random
from typing import Any

from tools.differential.grammars.cel_expressions import Operand, bool_expression, string_expression

_FIELDS = ("size", "mode", "parts", "labels", "ref", "free", "at", "count", "flag", "port")
_FORMATS = (
    "date-time",
    "date",
    "ipv4",
    "ipv6",
    "cidr",
    "uri",
    "byte",
    "email",
    "uuid",
    "duration",
    "hostname",
    "int32",
)
_PATTERNS = ("^[a-z]+$", "^a", "[0-9]{2}", "b$")
_TEXTS = ("a", "abc", "", "b1", "10.0.0.1", "2026-01-01T00:00:00Z", "1h", "x" * 12, "a@b.c", "https://ex.io/", "YQ==")
_ODD: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "a", [], {}, [None], {"a": None}, 1 << 40)
_UNSUPPORTED: tuple[dict[str, Any], ...] = (
    {"uniqueItems": True},
    {"$ref": "#/x"},
    {"type": "thing"},
    {"x-kubernetes-list-type": "map"},
    {"additionalProperties": False},
    {"pattern": "("},
    {"x-kubernetes-int-or-string": True},
    {"default": {"a": 1}},
    {"minimum": 5, "maximum": 1},
    {"x-kubernetes-map-type": "set"},
    {"x-kubernetes-list-map-keys": ["a"]},
    {"x-kubernetes-embedded-resource": True},
    {"deprecated": True},
)


def object_schema(rng: random.Random, depth: int) -> dict[str, Any]:
    """Return the schema of an object with one to four properties, sometimes with rules."""
    names = rng.sample(_FIELDS, rng.randint(1, 4))
    properties = {name: _schema(rng, depth - 1) for name in names}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if rng.random() < 0.3:
        schema["required"] = [rng.choice(names)]
    if rng.random() < 0.08:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    if rng.random() < 0.05:
        schema["x-kubernetes-map-type"] = rng.choice(("atomic", "granular"))
    if rng.random() < 0.35:
        schema["x-kubernetes-validations"] = [_rule(rng, schema) for _ in range(rng.choice((1, 1, 2)))]
    return schema


def _schema(rng: random.Random, depth: int) -> dict[str, Any]:
    kinds = [_text, _text, _integer, _number, _boolean, _int_or_string, _free]
    if depth > 0:
        kinds += [_array, _array, _map, lambda rng: object_schema(rng, depth - 1)]
    schema = rng.choice(kinds)(rng)
    if rng.random() < 0.1:
        schema["nullable"] = True
    if rng.random() < 0.25 and "items" not in schema:
        schema["default"] = value_for(rng, schema)
    if rng.random() < 0.015:
        schema.update(copy.deepcopy(rng.choice(_UNSUPPORTED)))
    if rng.random() < 0.15 and schema.get("type") in ("string", "integer", "array"):
        _limit(schema)
        schema["x-kubernetes-validations"] = [_rule(rng, schema)]
    return schema


def _limit(schema: dict[str, Any]) -> None:
    """Bound the size of values, so that the estimated cost of a rule is small."""
    if schema["type"] == "string" and "enum" not in schema:
        schema.setdefault("maxLength", 20)
    elif schema["type"] == "array":
        schema.setdefault("maxItems", 5)


def _text(rng: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    how = rng.random()
    if how < 0.2:
        schema["enum"] = rng.sample(("a", "abc", "b1", ""), 2)
    elif how < 0.4:
        schema["format"] = rng.choice(_FORMATS)
    elif how < 0.5:
        schema["pattern"] = rng.choice(_PATTERNS)
    elif how < 0.7:
        schema |= {"minLength": rng.choice((0, 1, 2)), "maxLength": rng.choice((3, 10))}
    return schema


def _integer(rng: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    if rng.random() < 0.4:
        schema |= {"minimum": rng.choice((0, 1)), "maximum": rng.choice((3, 10))}
    if rng.random() < 0.1:
        schema |= {"exclusiveMinimum": True, "minimum": 0}
    if rng.random() < 0.1:
        schema["multipleOf"] = 2
    if rng.random() < 0.2:
        schema["format"] = rng.choice(("int32", "int64"))
    return schema


def _number(rng: random.Random) -> dict[str, Any]:
    return {"type": "number", **({"maximum": 2.5} if rng.random() < 0.5 else {})}


def _boolean(rng: random.Random) -> dict[str, Any]:
    del rng
    return {"type": "boolean"}


def _int_or_string(rng: random.Random) -> dict[str, Any]:
    del rng
    return {"x-kubernetes-int-or-string": True}


def _free(rng: random.Random) -> dict[str, Any]:
    free: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if rng.random() < 0.3:
        free["x-kubernetes-embedded-resource"] = True
    return free


def _map(rng: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "additionalProperties": _schema(rng, 0)}
    if rng.random() < 0.3:
        schema["maxProperties"] = 2
    return schema


def _array(rng: random.Random) -> dict[str, Any]:
    how = rng.random()
    if how < 0.4:
        items: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}, "v": _schema(rng, 0)}}
        items["required"] = ["name"]
        return {
            "type": "array",
            "items": items,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        }
    schema: dict[str, Any] = {"type": "array", "items": _text(rng)}
    if how < 0.6:
        schema["x-kubernetes-list-type"] = rng.choice(("set", "atomic"))
    if rng.random() < 0.4:
        schema |= {"minItems": rng.choice((0, 1)), "maxItems": rng.choice((1, 3))}
    return schema


def _rule(rng: random.Random, schema: dict[str, Any]) -> dict[str, Any]:
    operands = _operands(schema, "self", 2)
    if rng.random() < 0.2:
        operands += [Operand(one.text.replace("self", "oldSelf", 1), one.type) for one in operands]
    rule: dict[str, Any] = {"rule": bool_expression(rng, operands, 1)}
    if rng.random() < 0.4:
        rule["message"] = rng.choice(("no", "too large"))
    if rng.random() < 0.2:
        rule["messageExpression"] = string_expression(rng, operands)
    if rng.random() < 0.2:
        rule["reason"] = rng.choice(("FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "Other"))
    if rng.random() < 0.1:
        rule["fieldPath"] = rng.choice([f".{name}" for name in schema.get("properties", {})] or [".a"])
    if rng.random() < 0.05:
        rule["optionalOldSelf"] = True
    return rule


_TYPES = {"string": "string", "integer": "int", "boolean": "bool", "number": "double"}


def _operands(schema: dict[str, Any], text: str, depth: int) -> list[Operand]:
    """Return the values that a rule at a schema can use."""
    kind = schema.get("type", "")
    if kind in _TYPES:
        return [Operand(text, _TYPES[kind])] if "format" not in schema else []
    if kind == "array":
        inner = _TYPES.get(schema["items"].get("type", ""), "object")
        return [Operand(text, f"list({inner})")]
    if "additionalProperties" in schema:
        return [Operand(text, "map(string)")]
    properties: dict[str, Any] = schema.get("properties") or {}
    return [one for name, inner in properties.items() if depth for one in _operands(inner, f"{text}.{name}", depth - 1)]


def value_for(rng: random.Random, schema: dict[str, Any], oddness: float = 0.0) -> Any:
    """Return a value for a schema, mostly one that it permits; some are odd ones with this probability."""
    if rng.random() < oddness:
        return copy.deepcopy(rng.choice(_ODD))
    kind = schema.get("type")
    if kind == "object":
        return _object_for(rng, schema, oddness)
    if kind == "array":
        return [value_for(rng, schema["items"], oddness) for _ in range(rng.choice((0, 1, 2)))]
    if kind == "string":
        return rng.choice(schema.get("enum") or _TEXTS)
    if kind == "integer":
        return rng.choice((0, 1, 2, 4, 20))
    if kind == "number":
        return rng.choice((0, 1.5, 2, 3.25))
    if kind == "boolean":
        return rng.choice((True, False))
    return rng.choice((1, "50%", "a"))


def _object_for(rng: random.Random, schema: dict[str, Any], oddness: float) -> dict[str, Any]:
    properties: dict[str, Any] = schema.get("properties") or {}
    found = {name: value_for(rng, one, oddness) for name, one in properties.items() if rng.random() < 0.7}
    if isinstance(inner := schema.get("additionalProperties"), dict):
        found |= {key: value_for(rng, inner, oddness) for key in rng.sample(("a", "b", "c d"), rng.choice((0, 1, 2)))}
    if schema.get("x-kubernetes-embedded-resource"):
        found |= {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    if rng.random() < oddness * 2:
        found["unknown"] = {"a": 1}
    return found
