# SPDX-License-Identifier: Apache-2.0
"""Strategic merge patch: lists merge as the schema says, and directives control the merge.

The directives are `$patch: replace|delete` in a map or a list item, `$retainKeys` in a map, and beside a list `x` of a
map `$setElementOrder/x` and `$deleteFromPrimitiveList/x`. Fields outside the schema merge as plain JSON.
"""

from __future__ import annotations

import operator
from typing import Any, Final

from kubeloop.api import codec
from kubeloop.api.patch.errors import BadPatch, PatchFailed, nesting_error
from kubeloop.api.patch.gotext import go_string, go_text, json_kind
from kubeloop.api.patch.list_order import (
    DIRECTIVE,
    ELEMENT_ORDER,
    check_element_order,
    element_type,
    first_positions,
    keys_of,
    sort_merged,
    type_mismatch_error,
)
from kubeloop.api.schema import SchemaNode

_RETAIN_KEYS: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList"
_ABSENT: Final[Any] = object()
# Called for every key of every patch, so no Python function.
_is_directive: Final = operator.methodcaller("startswith", "$")

_Map = dict[str, Any]


def apply_strategic_merge_patch(document: _Map, patch: Any, node: SchemaNode) -> _Map:
    """Return the document merged with the patch; `node` is the document's schema."""
    if patch is None:
        return document
    if not isinstance(patch, dict):
        raise BadPatch(f"json: cannot unmarshal {json_kind(patch)} into Go value of type map[string]interface {{}}")
    try:
        return _merge_map(document, patch, node)
    except RecursionError:
        raise nesting_error() from None


def _merge_map(original: _Map, patch: _Map, node: SchemaNode | None) -> _Map:
    if DIRECTIVE in patch:
        return _replaced_map(patch)
    steered = any(map(_is_directive, patch))
    if steered:
        original, patch = _follow_map_directives(original, patch, node)
    merged = original
    for key, patched in patch.items():
        if deleting := steered and key.startswith(_DELETE_FROM):
            key = _list_named_by(key, _DELETE_FROM, "primitive list")
        current = merged.get(key, _ABSENT)
        new = _merge_value(current, patched, node, key, deleting)
        if new is current:
            continue
        if merged is original:
            merged = dict(original)
        if new is _ABSENT:
            del merged[key]
        else:
            merged[key] = new
    return merged


def _merge_value(current: Any, patched: Any, node: SchemaNode | None, key: str, deleting: bool) -> Any:
    """Return the merged value of a map's key; `_ABSENT` deletes the key."""
    if patched is None:
        return _ABSENT
    kind = type(patched)
    if type(current) is not kind:
        return current if deleting else _fresh(patched)
    if kind is list:
        return _merge_list(current, patched, _child(node, key), deleting)
    if kind is not dict:
        return current if current == patched else patched
    child = _child(node, key)
    replaced = child is not None and "replace" in child.patch_strategies
    return patched if replaced else _merge_map(current, patched, child)


def _child(node: SchemaNode | None, key: str) -> SchemaNode | None:
    """Return the schema below a key; None if there is none."""
    if node is None:
        return None
    if (struct := node.opaque_struct) is not None:
        raise PatchFailed(f'unable to find api field in struct {struct} for the json field "{key}"')
    child = node.fields.get(key)
    return child if child is not None or node.is_struct else node.item


def _list_named_by(directive: str, prefix: str, what: str) -> str:
    head, slash, name = directive.partition("/")
    if head != prefix or not slash:
        raise BadPatch(f"invalid patch format of {what}")
    return name


def _replaced_map(patch: _Map) -> _Map:
    directive = patch[DIRECTIVE]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    raise _unknown_directive(patch)


def _unknown_directive(patch: _Map) -> PatchFailed:
    return PatchFailed(f"unknown patch type: {go_string(patch[DIRECTIVE])} in map: {go_text(patch)}")


def _fresh(value: Any) -> Any:
    """Return a patch's value for an absent field; text is searched first, since most have no directives or nulls."""
    if type(value) in (dict, list):
        text = codec.encode(value)
        if b'"$' in text or b"null" in text:
            return _without_directives(value, drop_nulls=True)
    return value


def _without_directives(value: Any, *, drop_nulls: bool) -> Any:
    """Return a patch's value for an absent field; absent if it is itself a directive."""
    if type(value) is dict:
        if DIRECTIVE in value and not (drop_nulls and value[DIRECTIVE] is None):
            return _ABSENT
        kept = {}
        for key, inner in value.items():
            clean = inner if inner is None else _without_directives(inner, drop_nulls=drop_nulls)
            if clean is not _ABSENT and not (drop_nulls and clean is None):
                kept[key] = clean
        return kept
    if type(value) is list:
        cleaned = (_without_directives(inner, drop_nulls=drop_nulls) for inner in value)
        return [clean for clean in cleaned if clean is not _ABSENT]
    return value


def _follow_map_directives(original: _Map, patch: _Map, node: SchemaNode | None) -> tuple[_Map, _Map]:
    """Apply `$retainKeys` and `$setElementOrder` and return both maps; the patch loses the directives."""
    patch = dict(patch)
    if _RETAIN_KEYS in patch:
        original = _retained(original, patch, patch.pop(_RETAIN_KEYS))
    for directive in [key for key in patch if key.startswith(ELEMENT_ORDER)]:
        order = patch.pop(directive)
        if type(order) is not list:
            raise type_mismatch_error([], order)
        name = _list_named_by(directive, ELEMENT_ORDER, "setElementOrder list")
        current, patched = original.get(name, _ABSENT), patch.pop(name, _ABSENT)
        ordered = _ordered_list(current, patched, order, _list_node(node, name))
        if ordered is not current:
            original = {**original, name: ordered}
    return original, patch


def _retained(original: _Map, patch: _Map, retained: Any) -> _Map:
    """Return the original without keys that `$retainKeys` doesn't list; the patch may set no others either."""
    if type(retained) is not list:
        raise BadPatch("invalid patch format of retainKeys")
    keys = set(keys_of(retained, ""))
    for key, value in patch.items():
        if key not in keys and value is not None and not key.startswith((_DELETE_FROM, ELEMENT_ORDER)):
            raise BadPatch("invalid patch format of retainKeys")
    return original if original.keys() <= keys else {key: original[key] for key in original if key in keys}


def _list_node(node: SchemaNode | None, name: str) -> SchemaNode:
    """Return the schema of an ordered list; only a known list can have an order."""
    if node is not None and node.is_map:
        raise PatchFailed("merging an object in json but data type is not struct, instead is: map")
    child = _child(node, name)
    if child is None:
        raise PatchFailed(f'unable to find api field in struct for the json field "{name}"')
    if child.type != "array":
        raise PatchFailed("expected slice or array type, but got: struct")
    return child


def _ordered_list(current: Any, patched: Any, order: list[Any], node: SchemaNode) -> Any:
    """Return the merged list in the order of `$setElementOrder`; absent if there is no list at all."""
    for found in (current, patched):
        if found is not _ABSENT and type(found) is not list:
            raise type_mismatch_error([], found)
    live: list[Any] = [] if current is _ABSENT else current
    items: list[Any] = [] if patched is _ABSENT else patched
    check_element_order(items, order, node.patch_merge_key)
    if patched is _ABSENT:
        merged = current
    elif current is _ABSENT:
        merged = _without_directives(patched, drop_nulls=False)
    else:
        merged = _united(live, items, node)[0] if _merges(node) else patched
    if merged is _ABSENT:
        return _ABSENT
    element_type(live, items)
    return _same_or(current, sort_merged(merged, order, live, node.patch_merge_key))


def _merges(node: SchemaNode | None) -> bool:
    return node is not None and "merge" in node.patch_strategies


def _merge_list(original: list[Any], patch: list[Any], node: SchemaNode | None, deleting: bool) -> list[Any]:
    if not deleting and not _merges(node):
        return patch
    if not original and not patch:
        return original
    if deleting and element_type(original, patch) is not dict:
        unwanted = set(keys_of(patch, ""))
        pairs = zip(keys_of(original, ""), original, strict=True)
        return _same_or(original, [element for key, element in pairs if key not in unwanted])
    merged, wanted, live = _united(original, patch, node)
    return _same_or(original, sort_merged(merged, wanted, live, _merge_key(node)))


def _merge_key(node: SchemaNode | None) -> str:
    return "" if node is None else node.patch_merge_key


def _united(original: list[Any], patch: list[Any], node: SchemaNode | None) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the merged, unordered elements and the lists that give their order: the new ones, then the old."""
    if not original and not patch:
        return original, patch, original
    if element_type(original, patch) is not dict:
        return _unique([*original, *patch]), patch, original
    if node is None or not node.patch_merge_key:
        raise PatchFailed("cannot merge lists without merge key for struct")
    live, items = _follow_item_directives(original, patch, node.patch_merge_key)
    return _merge_items(live, items, node.patch_merge_key, node.item), items, live


def _unique(elements: list[Any]) -> list[Any]:
    return list(dict(zip(keys_of(elements, ""), elements, strict=True)).values())


def _follow_item_directives(original: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Return the list to merge into, without items deleted by `$patch: delete`, and the items to merge."""
    items = [item for item in patch if DIRECTIVE not in item]
    if len(items) == len(patch):
        return original, patch
    unwanted: list[Any] = []
    replace = False
    for item in patch:
        match item.get(DIRECTIVE, _ABSENT):
            case "delete":
                unwanted.append(item)
            case "replace":
                replace = True
            case "merge":
                raise PatchFailed("merging lists cannot yet be specified in the patch")
            case directive if directive is not _ABSENT:
                raise _unknown_directive(item)
    if replace:
        return items, []
    keys = set(keys_of(unwanted, merge_key))
    pairs = zip(keys_of(original, merge_key), original, strict=True)
    return [item for key, item in pairs if key not in keys], items


def _merge_items(original: list[Any], patch: list[Any], merge_key: str, node: SchemaNode | None) -> list[Any]:
    """Return the list with each patch item merged into the item of the same key, or appended."""
    merged = list(original)
    places = first_positions(keys_of(original, merge_key))
    for key, item in zip(keys_of(patch, merge_key), patch, strict=True):
        place = places.setdefault(key, len(merged))
        if place == len(merged):
            merged.append(item)
        else:
            merged[place] = _merge_map(merged[place], item, node)
    return merged


def _same_or(original: Any, changed: list[Any]) -> list[Any]:
    """Return the original if nothing changed, so that it stays shared."""
    if isinstance(original, list) and len(original) == len(changed) and all(map(operator.is_, original, changed)):
        return original
    return changed
