# SPDX-License-Identifier: Apache-2.0
"""Merging an applied configuration into the stored object, and removing fields from an object.

Results share unchanged parts with their inputs, which are never modified.
"""

from __future__ import annotations

from typing import Any

from kubeloop.api.apply.fields.compare import is_json_equal
from kubeloop.api.apply.fields.fieldset import LEAF as LEAF_TREE
from kubeloop.api.apply.fields.fieldset import FieldTree, is_member, sort_level
from kubeloop.api.apply.fields.path_elements import MEMBER, field_element
from kubeloop.api.apply.shape import KEYED, LEAF, RECORD, SET, InvalidListItem, OwnershipShape


def merge_applied(live: Any, config: Any, shape: OwnershipShape) -> Any:
    """Return the stored value merged with the configuration."""
    if shape.kind == LEAF or not (live or config):
        return live if is_json_equal(live, config) else config
    if shape.kind == RECORD:
        if not _is_record(config):
            return live if is_json_equal(live, config) else config
        return _merged_records(live if isinstance(live, dict) else {}, config or {}, shape)
    return _merged_lists(live or [], config or [], shape)


def _is_record(value: Any) -> bool:
    return value is None or isinstance(value, dict)


def _merged_records(live: dict[str, Any], config: dict[str, Any], shape: OwnershipShape) -> dict[str, Any]:
    out = dict(live)
    for name, value in config.items():
        out[name] = merge_applied(live[name], value, shape.at(name)) if name in live else value
    unchanged = len(out) == len(live) and all(out[name] is live[name] for name in config)
    return live if unchanged else out


def _merged_lists(live: list[Any], config: list[Any], shape: OwnershipShape) -> list[Any]:
    """Merge two lists in the stored order, except that shared items follow the configuration's order.

    Repeated stored items cannot be distinguished: the configured one replaces them.
    """
    mine = _elements(live, shape)
    stored: dict[str, Any] = {}
    for element, item in zip(mine, live, strict=True):
        stored[element] = None if element in stored else item
    wanted = dict(zip(_elements(config, shape), config, strict=True))

    def joined(element: str) -> Any:
        item = stored.get(element)
        return wanted[element] if item is None else merge_applied(item, wanted[element], shape.unknown_field_shape)

    out = [live[place] if element is None else joined(element) for place, element in _order(mine, list(wanted), stored)]
    unchanged = len(out) == len(live) and all(map(_is, out, live))
    return live if unchanged else out


def _is(left: Any, right: Any) -> bool:
    return left is right


def _order(mine: list[str], wanted: list[str], stored: dict[str, Any]) -> list[tuple[int, str | None]]:
    """Return the source of each merged item: an index into the stored list, or an element of the new one."""
    asked = set(wanted)
    shared = [element for element in wanted if element in stored]
    out: list[tuple[int, str | None]] = []
    done: set[str] = set()
    left = right = turn = 0
    while left < len(mine) or right < len(wanted):
        if left < len(mine):
            element = mine[left]
            if element not in asked:
                out.append((left, None))
                left += 1
                continue
            out_of_turn = right < len(wanted) and turn < len(shared) and shared[turn] != element
            if element in done or out_of_turn:
                left += 1
                continue
        if right < len(wanted):
            element = wanted[right]
            out.append((right, element))
            done.add(element)
            right += 1
            turn += turn < len(shared) and shared[turn] == element
    return out


def _elements(items: list[Any], shape: OwnershipShape) -> list[str]:
    """Return the items' path elements; an item that has none gets a unique one."""
    found: list[str] = []
    for position, item in enumerate(items):
        try:
            found.append(shape.element_of(item))
        except InvalidListItem:
            found.append(f"i:{position}")
    return found


def applied_fields(config: dict[str, Any], shape: OwnershipShape) -> FieldTree:
    """Return the fields that a configuration claims: its leaves, its list items and the keys of its maps."""
    return _claimed(config, shape) or {}


def _claimed(value: Any, shape: OwnershipShape) -> FieldTree | None:
    """Return the claims at and below a place; an empty tree claims the place itself."""
    if shape.kind == LEAF:
        return LEAF_TREE
    if value is None:
        return None
    if shape.kind in (SET, KEYED):
        return _claimed_items(value, shape)
    if not isinstance(value, dict):
        return LEAF_TREE
    tree: FieldTree = {}
    for name, inner_value in value.items():
        known = shape.fields.get(name)
        below = _claimed(inner_value, shape.unknown_field_shape if known is None else known.shape)
        if known is None or inner_value is None or inner_value == {}:
            tree[field_element(name)] = _as_member(below)
        elif below is not None:
            tree[field_element(name)] = below
    return sort_level(tree) or None


def _claimed_items(items: list[Any], shape: OwnershipShape) -> FieldTree | None:
    tree: FieldTree = {}
    for element, item in zip(_elements(items, shape), items, strict=True):
        tree[element] = LEAF_TREE if element in tree else _as_member(_claimed(item, shape.unknown_field_shape))
    return sort_level(tree) or None


def _as_member(below: FieldTree | None) -> FieldTree:
    return {MEMBER: LEAF_TREE, **below} if below else LEAF_TREE


def with_structs(tree: FieldTree, shape: OwnershipShape) -> FieldTree:
    """Return the set plus every struct field on the path to a member, so that empty structs can be removed."""
    full: FieldTree = {}
    for key, child in tree.items():
        known = shape.fields.get(key[2:]) if key[0] == "f" else None
        if not child or key == MEMBER:
            full[key] = child
            continue
        below = with_structs(child, shape.unknown_field_shape if known is None else known.shape)
        full[key] = below if known is None or MEMBER in below else {MEMBER: LEAF_TREE, **below}
    return full


def remove_fields(value: Any, fields: FieldTree, shape: OwnershipShape) -> Any:
    """Return the value without the given fields; a container that loses everything becomes null."""
    if shape.kind == RECORD and isinstance(value, dict):
        return _record_without(value, fields, shape)
    if shape.kind in (SET, KEYED) and isinstance(value, list):
        kept = []
        for element, item in zip(_elements(value, shape), value, strict=True):
            child = fields.get(element)
            if child is None or not is_member(child):
                kept.append(item if child is None else remove_fields(item, child, shape.unknown_field_shape))
        return kept or None
    return None if isinstance(value, dict | list) else value


def _record_without(value: dict[str, Any], fields: FieldTree, shape: OwnershipShape) -> dict[str, Any] | None:
    kept: dict[str, Any] = {}
    for name, inner_value in value.items():
        child = fields.get(field_element(name))
        if child is None:
            kept[name] = inner_value
        elif not is_member(child):
            kept[name] = remove_fields(inner_value, child, shape.at(name))
    return kept or None
