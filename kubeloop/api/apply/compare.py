"""What changed between two versions of an object, as sets of fields.

Only what differs is walked: subtrees that are the same object, or equal, cost one comparison.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kubeloop.api.apply import shape as shapes
from kubeloop.api.apply.elements import MEMBER, field
from kubeloop.api.apply.fieldset import LEAF, FieldTree, in_order, union
from kubeloop.api.apply.shape import RECORD, BadItem, Plan, Shape


class Comparison(NamedTuple):
    changed: FieldTree
    """Fields that are new or have another value."""
    removed: FieldTree


def compare(old: dict[str, Any], new: dict[str, Any], shape: Shape) -> Comparison:
    """The difference between two whole objects of one kind."""
    changed, removed = _records(old, new, shape)
    return Comparison(changed or {}, removed or {})


def tree_of(value: Any, shape: Shape) -> FieldTree:
    """Everything a value holds when it appears or goes as a whole: all leaves, and every container on the way."""
    kind = shape.kind
    if not value or kind == shapes.LEAF:
        return LEAF
    if kind != RECORD:
        return _tree_of_list(value, shape)
    return _tree_of_record(value, shape) if type(value) is dict else LEAF


def _tree_of_record(value: dict[str, Any], shape: Shape) -> FieldTree:
    plan = shape.plans.get(names := tuple(value))
    if plan is None:
        plan = _planned(names, shape)
    outline, containers = plan
    if not containers:
        return outline
    tree = dict(outline)
    for name, element, inner in containers:
        if value[name]:
            tree[element] = tree_of(value[name], inner)
    return tree


def _planned(names: tuple[str, ...], shape: Shape) -> Plan:
    """Works out what records with these field names have in common, and remembers it: writers repeat themselves."""
    outline: FieldTree = {MEMBER: LEAF}
    containers: list[tuple[str, str, Shape]] = []
    for name in sorted(names):
        known = shape.fields.get(name)
        inner = shape.other if known is None else known.shape
        outline[field(name)] = LEAF
        if inner.kind != shapes.LEAF:
            containers.append((name, field(name), inner))
    if len(shape.plans) >= _MAX_PLANS:
        shape.plans.clear()
    plan = shape.plans[names] = (outline, tuple(containers))
    return plan


_MAX_PLANS = 64


def _tree_of_list(items: Any, shape: Shape) -> FieldTree:
    if type(items) is not list:
        return LEAF
    inner = shape.other
    tree: FieldTree = {MEMBER: LEAF}
    for element, value in _indexed(items, shape).items():
        # Repeated items are owned as one: they cannot be told apart.
        tree[element] = _tree_of_item(value, inner)
    return in_order(tree)


class _Repeated(list[Any]):
    """Items of one list that have the same element."""


def _indexed(items: Any, shape: Shape) -> dict[str, Any]:
    """The items by their element. Items that cannot be named own nothing."""
    found: dict[str, Any] = {}
    for item in items if type(items) is list else ():
        try:
            element = shape.element_of(item)
        except BadItem:
            continue
        if element in found:
            before = found[element]
            item = _Repeated([*before, item] if type(before) is _Repeated else [before, item])
        found[element] = item
    return found


_Pair = tuple[FieldTree | None, FieldTree | None]
"""What changed and what went at one place; an empty tree is the place itself, None is nothing."""


def _places(old: Any, new: Any, shape: Shape) -> _Pair:
    """Compares two values that are both present and known to differ."""
    if shape.kind == shapes.LEAF:
        return LEAF, None
    if not old and not new:
        # Null against empty: the difference is the container's own.
        return LEAF, None
    if shape.kind != RECORD:
        return _lists(old, new, shape)
    if shape.free_form and not (_is_record(old) and _is_record(new)):
        return _retyped(old, new, shape)
    return _records(old if _is_record(old) else {}, new if _is_record(new) else {}, shape)


def _is_record(value: Any) -> bool:
    return value is None or type(value) is dict


def _retyped(old: Any, new: Any, shape: Shape) -> _Pair:
    """A free-form value that turned from a map into something else, or back, or never was a map."""
    gone = {key: child for key, child in tree_of(old, shape).items() if key != MEMBER}
    return tree_of(new, shape), gone or None


def _records(old: dict[str, Any] | None, new: dict[str, Any] | None, shape: Shape) -> _Pair:
    old, new = old or {}, new or {}
    fields, other = shape.fields, shape.other
    changed: FieldTree = {}
    removed: FieldTree = {}
    for name, value in new.items():
        before = old.get(name, _ABSENT)
        if before is value:
            continue
        known = fields.get(name)
        element, inner, always, leaf = (field(name), other, False, False) if known is None else known
        if before is _ABSENT:
            if not always:
                changed[element] = LEAF if leaf else tree_of(value, inner)
                continue
            before = inner.zero
        if not (same(before, value) if inner.free_form else before == value):
            _note(element, _places(before, value, inner), changed, removed)
    if len(old) != len(new) or not old.keys() <= new.keys():
        _note_gone(old, new, shape, changed, removed)
    return in_order(changed) or None, in_order(removed) or None


_ABSENT: Any = object()


def _note(element: str, pair: _Pair, changed: FieldTree, removed: FieldTree) -> None:
    if pair[0] is not None:
        changed[element] = pair[0]
    if pair[1] is not None:
        removed[element] = pair[1]


def _note_gone(old: dict[str, Any], new: dict[str, Any], shape: Shape, changed: FieldTree, removed: FieldTree) -> None:
    for name, value in old.items():
        if name in new:
            continue
        known = shape.fields.get(name)
        inner = shape.other if known is None else known.shape
        if known is None or not known.always:
            removed[field(name)] = tree_of(value, inner)
        elif value != inner.zero:
            _note(field(name), _places(value, inner.zero, inner), changed, removed)


def _lists(old: Any, new: Any, shape: Shape) -> _Pair:
    inner = shape.other
    before, after = _indexed(old, shape), _indexed(new, shape)
    changed: FieldTree = {}
    removed: FieldTree = {}
    for element, value in after.items():
        was = before.get(element, _ABSENT)
        if was is _ABSENT:
            changed[element] = _tree_of_item(value, inner)
        elif was is not value and was != value:
            _note(element, _items(was, value, inner), changed, removed)
    for element, value in before.items():
        if element not in after:
            removed[element] = _tree_of_item(value, inner)
    return in_order(changed) or None, in_order(removed) or None


def _tree_of_item(value: Any, inner: Shape) -> FieldTree:
    return LEAF if type(value) is _Repeated else tree_of(value, inner)


def _items(was: Any, value: Any, inner: Shape) -> _Pair:
    """What one element names before and after: one item each, unless a list holds repeated ones."""
    repeated = type(was) is _Repeated, type(value) is _Repeated
    if not any(repeated):
        return _places(was, value, inner)
    if all(repeated):
        return LEAF, None
    return _tree_of_item(value, inner), _tree_of_item(was, inner)


def same(left: Any, right: Any) -> bool:
    """JSON equality: unlike Python's, true is not 1."""
    if type(left) is not type(right):
        return left == right and not isinstance(left, bool) and not isinstance(right, bool)
    if type(left) is dict:
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if type(left) is list:
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def everything(comparison: Comparison) -> FieldTree:
    """All fields that differ, whichever way."""
    return union(comparison.changed, comparison.removed)
