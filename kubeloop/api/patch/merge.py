# SPDX-License-Identifier: Apache-2.0
"""JSON merge patch (RFC 7386): null deletes, lists are replaced."""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.patch.errors import BadPatch, nesting_error
from kubeloop.api.patch.gotext import json_kind

_ABSENT: Final = object()


def apply_merge_patch(document: Any, patch: Any) -> Any:
    """Return the document merged with the patch; only objects are accepted as patches, as upstream does."""
    if patch is None:
        raise BadPatch("Invalid JSON Patch")
    if not isinstance(patch, dict):
        kind = json_kind(patch)
        raise BadPatch(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        )
    try:
        return _merged(document if isinstance(document, dict) else {}, patch)
    except RecursionError:
        raise nesting_error() from None


def _merged(original: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged = original
    for key, patched in patch.items():
        current = merged.get(key, _ABSENT)
        new = _ABSENT if patched is None else _merged_value(current, patched)
        if new is current:
            continue
        if merged is original:
            merged = dict(original)
        if new is _ABSENT:
            del merged[key]
        else:
            merged[key] = new
    return merged


def _merged_value(current: Any, patched: Any) -> Any:
    if type(patched) is dict and type(current) is dict:
        return _merged(current, patched)
    if type(patched) is dict or type(patched) is list:
        return _without_nulls(patched)
    return current if type(current) is type(patched) and current == patched else patched


def _without_nulls(value: Any) -> Any:
    """Return the value without null fields; unlike the RFC and like upstream, also inside of lists."""
    if type(value) is dict:
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if type(value) is list:
        return [_without_nulls(inner) for inner in value]
    return value
