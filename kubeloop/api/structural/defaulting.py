# SPDX-License-Identifier: Apache-2.0
"""Defaulting of custom resources."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from kubeloop.api.structural.model import Structural


def apply_schema_defaults(value: Any, schema: Structural | None) -> None:
    """Apply a schema's defaults in place; a null that is not allowed counts as missing."""
    if schema is None or not schema.has_defaults:
        return
    if isinstance(value, dict):
        for name, declared in schema.properties.items():
            if declared.default is not None and (name not in value or _is_needless(value[name], declared)):
                value[name] = deepcopy(declared.default)
        for name, inner in value.items():
            declared_inner = schema.child(name)
            if declared_inner is None:
                continue
            if name not in schema.properties and _is_needless(inner, declared_inner):
                value[name] = inner = deepcopy(declared_inner.default)
            if declared_inner.has_defaults:
                apply_schema_defaults(inner, declared_inner)
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            if _is_needless(item, schema.items):
                value[index] = item = deepcopy(schema.items.default)
            apply_schema_defaults(item, schema.items)


def _is_needless(value: Any, schema: Structural) -> bool:
    return value is None and not schema.nullable
