# SPDX-License-Identifier: Apache-2.0
"""Patches of mutating policies: apply configurations and JSON patches, from CEL values. Pure functions.

Expressions that construct objects name their types after the fields they are for: `Object.spec{...}` fits only `spec`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubeloop.api.apply.merge import merge_applied
from kubeloop.api.apply.shape import LEAF, OwnershipShape, shape_of
from kubeloop.api.apply.validate import format_schema_errors, iter_schema_errors
from kubeloop.api.cel.values import ConstructedObject, is_list
from kubeloop.api.patch import PatchError, PatchRejected, apply_json_patch
from kubeloop.api.schema import SchemaNode

_TEST_FAILED: Final = "testing value"


class PolicyPatchError(Exception):
    """Error for a patch that cannot be applied; the message is upstream's."""


def apply_configuration(document: dict[str, Any], config: Any, node: SchemaNode) -> dict[str, Any]:
    """Merge an apply configuration into the document, as server-side apply does."""
    check_names(config)
    shape = shape_of(node)
    full = {**to_json_value(config), "kind": document["kind"], "apiVersion": document["apiVersion"]}
    found = list(iter_schema_errors(full, shape))
    if found:
        why = f"failed to convert patch object to typed object: {format_schema_errors(found)}"
        raise PolicyPatchError(f"error applying patch: {why}")
    if atomic := list(_atomics(full, shape, "")):
        why = f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise PolicyPatchError(f"error applying patch: {why}")
    outcome: dict[str, Any] = merge_applied(document, full, shape)
    return outcome


def _atomics(value: Any, shape: OwnershipShape, path: str) -> Iterator[str]:
    """Yield the paths of values that could only be replaced as a whole."""
    if shape.is_free_form or not isinstance(value, dict | list):
        return
    if shape.kind == LEAF:
        yield path
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _atomics(inner, shape.at(name), f"{path}.{name}")
    else:
        for index, item in enumerate(value):
            yield from _atomics(item, shape.unknown_field_shape, f"{path}[{index}]")


def apply_operations(document: dict[str, Any], operations: Any) -> dict[str, Any]:
    """Return the document after all operations; unchanged if a `test` operation fails."""
    try:
        outcome: dict[str, Any] = apply_json_patch(document, [_operation(one) for one in operations])
    except PatchRejected as error:
        if error.detail.startswith(_TEST_FAILED):
            return document
        raise PolicyPatchError(f"JSON Patch: {error.detail}") from None
    except PatchError as error:
        raise PolicyPatchError(f"JSON Patch: {error.message}") from None
    return outcome


def _operation(made: Mapping[str, Any]) -> dict[str, Any]:
    operation = {"op": made.get("op", ""), "path": made.get("path", "")}
    if made.get("from"):
        operation["from"] = made["from"]
    if "value" in made:
        check_names(made["value"])
        operation["value"] = to_json_value(made["value"])
    return operation


def to_json_value(value: Any) -> Any:
    """Return a CEL value as JSON-compatible data."""
    if isinstance(value, Mapping):
        return {_key(key): to_json_value(inner) for key, inner in value.items()}
    if is_list(value):
        return [to_json_value(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise PolicyPatchError(f"JSONPath valueExpression evaluated to a type that could not marshal to JSON: {value!r}")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise PolicyPatchError(f"map key {key!r} is not a string")
    return key


def check_names(value: Any) -> None:
    """Raise `PolicyPatchError` if an object is used for another field than its type is named after."""
    if isinstance(value, ConstructedObject) and (wrong := list(_misnamed(value, value.type_name))):
        raise PolicyPatchError("type mismatch: " + "\n".join(wrong))


def _misnamed(value: Any, expected: str) -> Iterator[str]:
    if isinstance(value, ConstructedObject):
        if value.type_name != expected:
            yield (
                f'unexpected type name "{value.type_name}", expected "{expected}", '
                "which matches field name path from root Object type"
            )
        for name, inner in value.items():
            yield from _misnamed(inner, f"{expected}.{name}")
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _misnamed(inner, expected)
    elif is_list(value):
        for item in value:
            yield from _misnamed(item, expected)
