"""What mutating policies' expressions make of an object: merged configurations, and JSON patches. Pure.

Expressions that make objects name their types after the fields they are for: `Object.spec{...}` fits `spec` alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubeloop.api.apply.merge import merged
from kubeloop.api.apply.shape import LEAF, Shape, shape_of
from kubeloop.api.apply.validate import problems, told
from kubeloop.api.cel.syntax import Call, Fold, ListNode, MapNode, Node, ObjectNode
from kubeloop.api.cel.values import is_list
from kubeloop.api.patch import PatchError, PatchRejected, apply_json_patch
from kubeloop.api.schema import Node as SchemaNode

_TEST_FAILED: Final = "testing value"


class NotApplied(Exception):
    """Why a patch can't be applied; the message is upstream's."""


def configured(document: dict[str, Any], config: Any, node: SchemaNode) -> dict[str, Any]:
    """The document with everything that a configuration says, as server-side apply would have it."""
    shape = shape_of(node)
    full = {**plain(config), "kind": document["kind"], "apiVersion": document["apiVersion"]}
    found = list(problems(full, shape))
    if found:
        why = f"failed to convert patch object to typed object: {told(found)}"
        raise NotApplied(f"error applying patch: {why}")
    if atomic := list(_atomics(full, shape, "")):
        why = f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise NotApplied(f"error applying patch: {why}")
    outcome: dict[str, Any] = merged(document, full, shape)
    return outcome


def _atomics(value: Any, shape: Shape, path: str) -> Iterator[str]:
    """Where a value holds something that could only be replaced as a whole."""
    if shape.free_form or not isinstance(value, dict | list):
        return
    if shape.kind == LEAF:
        yield path
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _atomics(inner, shape.at(name), f"{path}.{name}")
    else:
        for index, item in enumerate(value):
            yield from _atomics(item, shape.other, f"{path}[{index}]")


def patched(document: dict[str, Any], operations: Any) -> dict[str, Any]:
    """The document after all operations, or as it was where a test among them fails."""
    try:
        outcome: dict[str, Any] = apply_json_patch(document, [_operation(one) for one in operations])
    except PatchRejected as error:
        if error.detail.startswith(_TEST_FAILED):
            return document
        raise NotApplied(f"JSON Patch: {error.detail}") from None
    except PatchError as error:
        raise NotApplied(f"JSON Patch: {error.message}") from None
    return outcome


def _operation(made: Mapping[str, Any]) -> dict[str, Any]:
    operation = {"op": made.get("op", ""), "path": made.get("path", "")}
    if made.get("from"):
        operation["from"] = made["from"]
    if "value" in made:
        operation["value"] = plain(made["value"])
    return operation


def plain(value: Any) -> Any:
    """A value of an expression as JSON."""
    if isinstance(value, Mapping):
        return {_key(key): plain(inner) for key, inner in value.items()}
    if is_list(value):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise NotApplied(f"JSONPath valueExpression evaluated to a type that could not marshal to JSON: {value!r}")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise NotApplied(f"map key {key!r} is not a string")
    return key


def misnamed(tree: Node) -> list[str]:
    """Objects that are made for other fields than their types are named after."""
    return [text for node in _objects_in(tree) for text in _misnamed(node, node.type_name)]


def _misnamed(node: ObjectNode, expected: str) -> Iterator[str]:
    if node.type_name != expected:
        yield (
            f'unexpected type name "{node.type_name}", expected "{expected}", '
            "which matches field name path from root Object type"
        )
    for entry in node.entries:
        for inner in _objects_in(entry.value):
            yield from _misnamed(inner, f"{expected}.{entry.key}")


def _objects_in(node: Node) -> Iterator[ObjectNode]:
    """The outermost objects that a part of an expression may come to."""
    if isinstance(node, ObjectNode):
        if node.type_name == "JSONPatch":
            for entry in node.entries:
                yield from _objects_in(entry.value)
        else:
            yield node
    elif isinstance(node, ListNode):
        for element in node.elements:
            yield from _objects_in(element)
    elif isinstance(node, MapNode):
        for entry in node.entries:
            yield from _objects_in(entry.value)
    elif isinstance(node, Call):
        for operand in node.operands:
            yield from _objects_in(operand)
    elif isinstance(node, Fold):
        yield from _objects_in(node.step)
