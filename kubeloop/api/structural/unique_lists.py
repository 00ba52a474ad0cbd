# SPDX-License-Identifier: Apache-2.0
"""Validation of uniqueness in sets and list-maps."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeloop.api.meta.field_path import FieldErrors, FieldPath, duplicate, invalid
from kubeloop.api.structural.model import Structural


def validate_unique_lists(value: Any, schema: Structural | None, path: FieldPath | None = None) -> FieldErrors:
    """Validate that no set or list-map of a value repeats an item."""
    if schema is None or not schema.has_unique_lists:
        return []
    if isinstance(value, dict):
        return _in_fields(value, schema, path)
    if not isinstance(value, list):
        return []
    assert path is not None  # an object's root is no list
    errors: FieldErrors = []
    if schema.list_type == "set":
        errors += [duplicate(path.index(index), value[index]) for index in _second_ones(value)]
    elif schema.list_type == "map":
        errors += _repeated_keys(value, schema.list_keys, path)
    if schema.items is not None and schema.items.has_unique_lists:
        for index, item in enumerate(value):
            errors += validate_unique_lists(item, schema.items, path.index(index))
    return errors


def _in_fields(value: dict[str, Any], schema: Structural, path: FieldPath | None) -> FieldErrors:
    errors: FieldErrors = []
    for name in sorted(value):
        declared = schema.properties.get(name)
        if declared is not None:
            if not declared.has_unique_lists:
                continue
            errors += validate_unique_lists(
                value[name], declared, FieldPath(name) if path is None else path.child(name)
            )
        elif isinstance(schema.additional, Structural):
            at = FieldPath(name, None, True) if path is None else path.key(name)
            errors += validate_unique_lists(value[name], schema.additional, at)
    return errors


def _are_different(items: list[Any], keys: tuple[str, ...]) -> bool:
    """Return True if items certainly have distinct keys."""
    try:
        return len({tuple(map(item.get, keys)) for item in items}) == len(items)
    except TypeError:  # keys that are no scalars
        return False


def _second_ones(values: list[Any]) -> list[int]:
    """Return the indexes of second occurrences; third ones are not reported."""
    seen: dict[bytes, int] = {}
    found: list[int] = []
    for index, value in enumerate(values):
        key = msgspec.json.encode(value, order="deterministic")
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            found.append(index)
    return found


def _repeated_keys(items: list[Any], keys: tuple[str, ...], path: FieldPath) -> FieldErrors:
    if all(isinstance(item, dict) for item in items) and _are_different(items, keys):
        return []
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            return [invalid(path.index(index), item, "must be an object for an array of list-type map")]
    identities = [{key: item[key] for key in keys if key in item} if item else {} for item in items]
    return [duplicate(path.index(index), identities[index]) for index in _second_ones(identities)]
