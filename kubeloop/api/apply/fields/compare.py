# SPDX-License-Identifier: Apache-2.0
"""Comparison of two versions of an object, as sets of fields.

Only differences are walked: subtrees that are identical or equal cost one comparison.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kubeloop.api.apply import shape as shapes
from kubeloop.api.apply.field_trees import DuplicateItems, index_items, tree_of, tree_of_item
from kubeloop.api.apply.fields.fieldset import LEAF, FieldTree, sort_level
from kubeloop.api.apply.fields.path_elements import MEMBER, field_element
from kubeloop.api.apply.shape import RECORD, OwnershipShape


class Comparison(NamedTuple):
    """Fields that were added or changed, and fields that were removed."""

    changed: FieldTree
    """Fields that are new or have another value."""
    removed: FieldTree


def compare(old: dict[str, Any], new: dict[str, Any], shape: OwnershipShape) -> Comparison:
    """Return the difference between two whole objects of one kind."""
    changed, removed = _records(old, new, shape)
    return Comparison(changed or {}, removed or {})


_Pair = tuple[FieldTree | None, FieldTree | None]
"""What changed and what went at one place; an empty tree is the place itself, None is nothing."""


def _places(old: Any, new: Any, shape: OwnershipShape) -> _Pair:
    """Compare two values that are both present and known to differ."""
    if shape.kind == shapes.LEAF:
        return LEAF, None
    if not old and not new:
        # Null against empty: the container itself differs.
        return LEAF, None
    if shape.kind != RECORD:
        return _lists(old, new, shape)
    if shape.is_free_form and not (_is_record(old) and _is_record(new)):
        return _retyped(old, new, shape)
    return _records(old if _is_record(old) else {}, new if _is_record(new) else {}, shape)


def _is_record(value: Any) -> bool:
    return value is None or type(value) is dict


def _retyped(old: Any, new: Any, shape: OwnershipShape) -> _Pair:
    """Compare a free-form value that changed between a map and another type, or never was a map."""
    gone = {key: child for key, child in tree_of(old, shape).items() if key != MEMBER}
    return tree_of(new, shape), gone or None


def _records(old: dict[str, Any] | None, new: dict[str, Any] | None, shape: OwnershipShape) -> _Pair:
    old, new = old or {}, new or {}
    fields, other = shape.fields, shape.unknown_field_shape
    changed: FieldTree = {}
    removed: FieldTree = {}
    for name, value in new.items():
        before = old.get(name, _ABSENT)
        if before is value:
            continue
        known = fields.get(name)
        element, inner, always, leaf = (field_element(name), other, False, False) if known is None else known
        if before is _ABSENT:
            if not always:
                changed[element] = LEAF if leaf else tree_of(value, inner)
                continue
            before = inner.zero
        if not (is_json_equal(before, value) if inner.is_free_form else before == value):
            _note(element, _places(before, value, inner), changed, removed)
    if len(old) != len(new) or not old.keys() <= new.keys():
        _note_gone(old, new, shape, changed, removed)
    return sort_level(changed) or None, sort_level(removed) or None


_ABSENT: Any = object()


def _note(element: str, pair: _Pair, changed: FieldTree, removed: FieldTree) -> None:
    if pair[0] is not None:
        changed[element] = pair[0]
    if pair[1] is not None:
        removed[element] = pair[1]


def _note_gone(
    old: dict[str, Any], new: dict[str, Any], shape: OwnershipShape, changed: FieldTree, removed: FieldTree
) -> None:
    for name, value in old.items():
        if name in new:
            continue
        known = shape.fields.get(name)
        inner = shape.unknown_field_shape if known is None else known.shape
        if known is None or not known.always:
            removed[field_element(name)] = tree_of(value, inner)
        elif value != inner.zero:
            _note(field_element(name), _places(value, inner.zero, inner), changed, removed)


def _lists(old: Any, new: Any, shape: OwnershipShape) -> _Pair:
    inner = shape.unknown_field_shape
    before, after = index_items(old, shape), index_items(new, shape)
    changed: FieldTree = {}
    removed: FieldTree = {}
    for element, value in after.items():
        was = before.get(element, _ABSENT)
        if was is _ABSENT:
            changed[element] = tree_of_item(value, inner)
        elif was is not value and was != value:
            _note(element, _items(was, value, inner), changed, removed)
    for element, value in before.items():
        if element not in after:
            removed[element] = tree_of_item(value, inner)
    return sort_level(changed) or None, sort_level(removed) or None


def _items(was: Any, value: Any, inner: OwnershipShape) -> _Pair:
    """Compare the items of one path element: one item each, unless a list repeats it."""
    repeated = type(was) is DuplicateItems, type(value) is DuplicateItems
    if not any(repeated):
        return _places(was, value, inner)
    if all(repeated):
        return LEAF, None
    return tree_of_item(value, inner), tree_of_item(was, inner)


def is_json_equal(left: Any, right: Any) -> bool:
    """Return True if two values are equal as JSON: unlike in Python, true is not 1."""
    if left is right:
        return True
    if type(left) is not type(right):
        return left == right and not isinstance(left, bool) and not isinstance(right, bool)
    if type(left) is dict:
        return left.keys() == right.keys() and all(is_json_equal(value, right[key]) for key, value in left.items())
    if type(left) is list:
        return len(left) == len(right) and all(map(is_json_equal, left, right))
    return bool(left == right)
