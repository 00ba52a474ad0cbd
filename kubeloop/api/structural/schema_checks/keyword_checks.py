# SPDX-License-Identifier: Apache-2.0
"""Validation of schema keywords: those that are forbidden, and those that require each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.structural.cel.rule_checks import validate_rule_syntax
from kubeloop.api.structural.model import META_FIELDS, Schema

# Keywords that prevent upstream from building a structural schema.
UNSUPPORTED: Final = ("id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions")
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_SET: Final = "x-kubernetes-list-type=set"


@dataclass(frozen=True, slots=True)
class _Place:
    """Constraints on a part of a schema, inherited from above."""

    root: bool = False
    inside_metadata: bool = False
    no_defaults: str = ""


def validate_keywords(schema: Schema, path: FieldPath) -> FieldErrors:
    """Validate the keywords of a schema at all its places."""
    return _problems(schema, path, _Place(root=True))


def _problems(schema: Any, path: FieldPath, place: _Place) -> FieldErrors:
    if not isinstance(schema, dict):
        return []
    errors = _forbidden_keywords(schema, path, place)
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(path.child("uniqueItems"), detail))
    errors += _additional_problems(schema, path, place)
    errors += _property_problems(schema, path, place)
    inner = replace(place, root=False)
    if "not" in schema:
        errors += _problems(schema["not"], path.child("not"), inner)
    for keyword in ("allOf", "oneOf", "anyOf"):
        for index, one in enumerate(schema.get(keyword) or ()):
            errors += _problems(one, path.child(keyword).index(index), inner)
    errors += _problems(schema.get("items"), path.child("items"), inner)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        errors.append(invalid(path.child("x-kubernetes-preserve-unknown-fields"), False, "must be true or undefined"))
    errors += _map_type_problems(schema, path) + _list_type_problems(schema, path) + _list_key_problems(schema, path)
    return errors + _identity_problems(schema, path) + validate_rule_syntax(schema, path)


def _forbidden_keywords(schema: Schema, path: FieldPath, place: _Place) -> FieldErrors:
    errors: FieldErrors = []
    kind = schema.get("type") or ""
    if kind and kind not in _TYPES:
        errors.append(not_supported(path.child("type"), kind, _TYPES))
    if schema.get("default") is not None and place.no_defaults:
        errors.append(forbidden(path.child("default"), f"must not be set {place.no_defaults}"))
    for keyword in ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"):
        if schema.get(keyword) is not None:
            errors.append(forbidden(path.child(keyword), f"{keyword} is not supported"))
    if kind == "null":
        detail = "type cannot be set to null, use nullable as an alternative"
        errors.append(forbidden(path.child("type"), detail))
    if isinstance(schema.get("items"), list):
        errors.append(forbidden(path.child("items"), "items must be a schema object and not an array"))
    if place.inside_metadata and schema.get("x-kubernetes-embedded-resource"):
        at = path.child("x-kubernetes-embedded-resource")
        errors.append(forbidden(at, "must not be used inside of resource meta"))
    return errors


def _additional_problems(schema: Schema, path: FieldPath, place: _Place) -> FieldErrors:
    additional = schema.get("additionalProperties")
    if additional is None:
        return []
    errors: FieldErrors = []
    if schema.get("properties") and additional is not True:
        detail = "additionalProperties and properties are mutual exclusive"
        errors.append(forbidden(path.child("additionalProperties"), detail))
    inner = replace(place, root=False)
    if place.inside_metadata:
        inner = replace(inner, no_defaults="inside additionalProperties applying to object metadata")
    return errors + _problems(additional, path.child("additionalProperties"), inner)


def _property_problems(schema: Schema, path: FieldPath, place: _Place) -> FieldErrors:
    errors: FieldErrors = []
    has_metadata = place.root or bool(schema.get("x-kubernetes-embedded-resource"))
    for name, inner in (schema.get("properties") or {}).items():
        below = replace(place, root=False)
        if has_metadata and name in META_FIELDS:
            below = replace(below, inside_metadata=True)
            if place.root:
                below = replace(below, no_defaults=f"in top-level {name}")
        errors += _problems(inner, path.child("properties").key(name), below)
    return errors


def _needs_type(schema: Schema, wanted: str, keyword: str, path: FieldPath) -> FieldErrors:
    kind = schema.get("type") or ""
    if kind == wanted:
        return []
    detail = f"must be {wanted} if {keyword} is specified"
    return [invalid(path.child("type"), kind, detail) if kind else required(path.child("type"), detail)]


def _map_type_problems(schema: Schema, path: FieldPath) -> FieldErrors:
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is None:
        return []
    errors = _needs_type(schema, "object", "x-kubernetes-map-type", path)
    if map_type not in ("atomic", "granular"):
        errors.append(not_supported(path.child("x-kubernetes-map-type"), map_type, ("atomic", "granular")))
    return errors


def _list_type_problems(schema: Schema, path: FieldPath) -> FieldErrors:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    at = path.child("x-kubernetes-list-type")
    errors: FieldErrors = []
    if list_type is not None:
        wrong_type = _needs_type(schema, "array", "x-kubernetes-list-type", path)
        errors += wrong_type
        if list_type == "set" and not wrong_type:
            errors += _set_item_problems(schema.get("items"), path.child("items"))
        if list_type not in ("atomic", "set", "map"):
            errors.append(not_supported(at, list_type, ("atomic", "set", "map")))
    if keys and list_type is None:
        errors.append(required(at, "must be map if x-kubernetes-list-map-keys is non-empty"))
    elif keys and list_type != "map":
        errors.append(invalid(at, list_type, "must be map if x-kubernetes-list-map-keys is non-empty"))
    return errors


def _set_item_problems(items: Any, path: FieldPath) -> FieldErrors:
    """Validate that the items of a set are atomic."""
    if not isinstance(items, dict):
        return []
    list_type, detail = items.get("x-kubernetes-list-type"), f"must be atomic as item of a list with {_SET}"
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        return [invalid(path.child("x-kubernetes-list-type"), list_type, detail)]
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        return [invalid(path.child("x-kubernetes-map-type"), list_type, detail)]
    return []


def _list_key_problems(schema: Schema, path: FieldPath) -> FieldErrors:
    if schema.get("x-kubernetes-list-type") != "map":
        return []
    keys, items = list(schema.get("x-kubernetes-list-map-keys") or ()), schema.get("items")
    at = path.child("x-kubernetes-list-map-keys")
    errors: FieldErrors = []
    if not keys:
        errors.append(required(at, "must not be empty if x-kubernetes-list-type is map"))
    if items is None:
        return [*errors, required(path.child("items"), "must have a schema if x-kubernetes-list-type is map")]
    if not isinstance(items, dict):
        detail = "must only have a single schema if x-kubernetes-list-type is map"
        return [*errors, invalid(path.child("items"), items, detail)]
    if items.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        return [*errors, invalid(path.child("items", "type"), items.get("type", ""), detail)]
    properties = items.get("properties") or {}
    for index, key in enumerate(keys):
        if key not in properties:
            errors.append(invalid(at, keys, "entries must all be names of item properties"))
        elif properties[key].get("type") in ("array", "object"):
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            place = path.child("items", "properties").key(key).child("type")
            errors.append(invalid(place, items["type"], detail))
        if key in keys[:index]:
            errors.append(invalid(at, keys, "must not contain duplicate entries"))
    return errors


def _identity_problems(schema: Schema, path: FieldPath) -> FieldErrors:
    """Validate that items of a set or list-map are not nullable, and that keys are always present.

    A key of a list-map must be required or have a default, and must not be nullable.
    """
    list_type, items = schema.get("x-kubernetes-list-type"), schema.get("items")
    if list_type not in ("set", "map") or not isinstance(items, dict):
        return []
    errors: FieldErrors = []
    if items.get("nullable"):
        detail = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        errors.append(forbidden(path.child("items", "nullable"), detail))
    if list_type == "set":
        return errors
    for key in schema.get("x-kubernetes-list-map-keys") or ():
        declared = (items.get("properties") or {}).get(key)
        if declared is None:
            continue
        at, why = path.child("items", "properties").key(key), "this property is in x-kubernetes-list-map-keys, so it"
        if key not in (items.get("required") or ()) and declared.get("default") is None:
            errors.append(required(at.child("default"), f"{why} must have a default or be a required property"))
        if declared.get("nullable"):
            errors.append(forbidden(at.child("nullable"), f"{why} cannot be nullable"))
    return errors
