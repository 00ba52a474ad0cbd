# SPDX-License-Identifier: Apache-2.0
"""Set of all fields that a value holds, for values that are added or removed as a whole.

Most clients send the same fields repeatedly, so the tree of records with the same field names is computed
once and then shared.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from kubeloop.api.apply import shape as shapes
from kubeloop.api.apply.fields.fieldset import LEAF, FieldTree, sort_level
from kubeloop.api.apply.fields.path_elements import MEMBER, field_element
from kubeloop.api.apply.shape import RECORD, ContainerField, FreshPlan, OwnershipShape, Plan

_P = TypeVar("_P")


def tree_of(value: Any, shape: OwnershipShape) -> FieldTree:
    """Return all fields of a value that is added or removed as a whole: all leaves, and every container above them."""
    kind = shape.kind
    if not value or kind == shapes.LEAF:
        return LEAF
    if kind != RECORD:
        return _tree_of_list(value, shape)
    return _tree_of_record(value, shape) if type(value) is dict else LEAF


def _tree_of_record(value: dict[str, Any], shape: OwnershipShape) -> FieldTree:
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


def _planned(names: tuple[str, ...], shape: OwnershipShape) -> Plan:
    outline: FieldTree = {MEMBER: LEAF}
    containers: list[ContainerField] = []
    for name in sorted(names):
        inner = shape.at(name)
        outline[field_element(name)] = LEAF
        if inner.kind != shapes.LEAF:
            containers.append(ContainerField(name, field_element(name), inner))
    plan = outline, tuple(containers)
    _remember(shape.plans, names, plan)
    return plan


_MAX_PLANS = 64
_MAX_NAMES = 48


def _remember(plans: dict[tuple[str, ...], _P], names: tuple[str, ...], plan: _P) -> None:
    """Cache a plan; bounds the number and size of plans, because clients choose the names in maps."""
    if len(names) > _MAX_NAMES:
        return
    if len(plans) >= _MAX_PLANS:
        plans.clear()
    plans[names] = plan


def tree_of_new(value: dict[str, Any], shape: OwnershipShape) -> FieldTree:
    """Return the fields of a new record beyond those of its type's zero value; the same as comparing the two."""
    plan = shape.fresh_plans.get(names := tuple(value))
    if plan is None:
        plan = _freshly_planned(names, shape)
    outline, containers, there = plan
    tree = dict(outline)
    for name, element, inner in containers:
        if value[name]:
            tree[element] = tree_of(value[name], inner)
    for (name, element, inner), zero in there:
        below = _beyond(zero, value[name], inner)
        if below is None:
            del tree[element]
        else:
            tree[element] = below
    return tree


def _freshly_planned(names: tuple[str, ...], shape: OwnershipShape) -> FreshPlan:
    outline, containers = _planned(names, shape)
    zero = shape.zero
    fresh = {element: LEAF for element in outline if element != MEMBER}
    there = tuple(
        (ContainerField(name, field_element(name), shape.at(name)), zero[name])
        for name in sorted(names)
        if name in zero
    )
    plan = fresh, tuple(container for container in containers if container.name not in zero), there
    _remember(shape.fresh_plans, names, plan)
    return plan


def _beyond(zero: Any, value: Any, shape: OwnershipShape) -> FieldTree | None:
    """Return the difference between a field's zero value and its new one; None when there is none."""
    if value == zero:
        return None
    if zero is not None and shape.kind == RECORD and type(value) is dict:
        return tree_of_new(value, shape) or None
    tree = tree_of(value, shape)
    return {key: child for key, child in tree.items() if key != MEMBER} if tree else tree


def _tree_of_list(items: Any, shape: OwnershipShape) -> FieldTree:
    if type(items) is not list:
        return LEAF
    inner = shape.unknown_field_shape
    tree: FieldTree = {MEMBER: LEAF}
    for element, value in index_items(items, shape).items():
        # Repeated items are owned as one: they cannot be distinguished.
        tree[element] = tree_of_item(value, inner)
    return sort_level(tree)


_NO_ITEM: Final = object()


class DuplicateItems(list[Any]):
    """Items of one list that have the same path element."""


def index_items(items: Any, shape: OwnershipShape) -> dict[str, Any]:
    """Return the items by their path element; raises InvalidListItem for one without."""
    found: dict[str, Any] = {}
    for item in items if type(items) is list else ():
        element = shape.element_of(item)
        before = found.get(element, _NO_ITEM)
        if before is _NO_ITEM:
            found[element] = item
        elif type(before) is DuplicateItems:
            before.append(item)
        else:
            found[element] = DuplicateItems((before, item))
    return found


def tree_of_item(value: Any, inner: OwnershipShape) -> FieldTree:
    """Return the fields of a list item; a leaf for repeated items."""
    return LEAF if type(value) is DuplicateItems else tree_of(value, inner)
