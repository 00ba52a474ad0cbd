# SPDX-License-Identifier: Apache-2.0
"""Pruning of undeclared fields, and of nulls in fields that are not nullable."""

from __future__ import annotations

from typing import Any

from kubeloop.api.meta.field_path import MAX_ERRORS
from kubeloop.api.structural.model import META_FIELDS, Structural


def prune(document: dict[str, Any], schema: Structural | None) -> list[str]:
    """Remove undeclared fields of a whole object in place; returns their sorted paths, up to a maximum."""
    dropped: list[str] = []
    if schema is None:
        _prune_root_of_nothing(document, dropped)
    else:
        _prune(document, schema, "", dropped)
    return sorted(dropped)


def prune_value(value: Any, schema: Structural | None) -> list[str]:
    """Remove undeclared fields of a part of an object, such as a default; returns their paths."""
    dropped: list[str] = []
    _prune(value, schema, "", dropped)
    return sorted(dropped)


def _prune_root_of_nothing(document: dict[str, Any], dropped: list[str]) -> None:
    for name in [name for name in document if name not in META_FIELDS]:
        dropped.append(name)
        del document[name]


def _prune(value: Any, schema: Structural | None, path: str, dropped: list[str]) -> None:
    if schema is not None and schema.preserves:
        _prune_declared(value, schema, path, dropped)
    elif isinstance(value, dict):
        _prune_fields(value, schema, path, dropped)
    elif isinstance(value, list):
        items = schema.items if schema is not None else None
        for index, item in enumerate(value):
            if isinstance(item, (dict, list)):
                _prune(item, items, f"{path}[{index}]", dropped)


def _prune_fields(value: dict[str, Any], schema: Structural | None, path: str, dropped: list[str]) -> None:
    unknown: list[str] = []
    for name, inner in value.items():
        if schema is None:
            unknown.append(name)
            continue
        if schema.embedded and name in META_FIELDS:
            continue
        declared = schema.properties.get(name)
        if declared is None:
            if schema.additional is None:
                unknown.append(name)
                continue
            declared = schema.additional if isinstance(schema.additional, Structural) else None
        if isinstance(inner, (dict, list)):
            _prune(inner, declared, f"{path}.{name}" if path else name, dropped)
    for name in unknown:
        if (path or name not in META_FIELDS) and len(dropped) < MAX_ERRORS:
            dropped.append(f"{path}.{name}" if path else name)
        del value[name]


def _prune_declared(value: Any, schema: Structural, path: str, dropped: list[str]) -> None:
    """Prune inside declared fields where unknown fields are preserved."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if (schema.embedded and name in META_FIELDS) or not isinstance(inner, (dict, list)):
                continue
            if name in schema.properties or schema.additional is not None:
                _prune(inner, schema.child(name), f"{path}.{name}" if path else name, dropped)
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            _prune_declared(item, schema.items, f"{path}[{index}]", dropped)


def drop_nulls(value: Any, schema: Structural | None) -> None:
    """Remove nulls of non-nullable fields in place; those with a default are kept for defaulting."""
    if schema is None:
        return
    if isinstance(value, dict):
        needless: list[str] = []
        for name, inner in value.items():
            declared = schema.child(name)
            if declared is None:
                continue
            if inner is None:
                if not declared.nullable and declared.default is None:
                    needless.append(name)
            elif isinstance(inner, (dict, list)):
                drop_nulls(inner, declared)
        for name in needless:
            del value[name]
    elif isinstance(value, list):
        for item in value:
            drop_nulls(item, schema.items)
