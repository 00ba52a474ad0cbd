# SPDX-License-Identifier: Apache-2.0
"""Sets of field paths, kept as the stored FieldsV1 tree, so that the hot path needs no codec.

In a tree, an empty child is a member; a child holding `.` is a member with members below; any other child is only the
path to members below. The root itself is never a member, so an empty root is the empty set. Trees are shared freely and
therefore never changed in place: every function returns a new tree, or its own input when there is nothing to change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kubeloop.api.apply.fields.path_elements import (
    MEMBER,
    InvalidElement,
    canonical,
    element_sort_key,
    field_element,
    format_element,
)

FieldTree = dict[str, Any]
ElementPath = tuple[str, ...]

LEAF: FieldTree = {}
"""A member with nothing below. Shared by all trees."""


class InvalidFields(ValueError):
    """Raised for a FieldsV1 document that is no set of fields."""


def field_set(*paths: Iterable[str]) -> FieldTree:
    """Return a set of struct fields, each given by its path: `of(("spec", "replicas"), ("status",))`."""
    found: FieldTree = {}
    for path in paths:
        found = union(found, tree_of_path([field_element(name) for name in path]))
    return found


def tree_of_path(elements: list[str]) -> FieldTree:
    """Return the set that holds one path."""
    tree: FieldTree = LEAF
    for element in reversed(elements):
        tree = {element: tree}
    return tree


def is_member(child: FieldTree) -> bool:
    """Return True if a child is a member of the set itself."""
    return not child or MEMBER in child


def sort_level(tree: FieldTree) -> FieldTree:
    """Return one level with its elements in upstream's order."""
    if len(tree) < 2:
        return tree
    keys = list(tree)
    ordered = sorted(keys)
    if ordered[-1][0] > "f":
        # Field names sort as they are, and after "."; other elements sort by their content.
        ordered = sorted(keys, key=element_sort_key)
    return tree if ordered == keys else {key: tree[key] for key in ordered}


def union(left: FieldTree, right: FieldTree) -> FieldTree:
    """Return the members of either set."""
    if left is right or not right:
        return left
    if not left:
        return right
    merged: FieldTree | None = None
    for key, theirs in right.items():
        if key == MEMBER:
            continue
        mine = left.get(key)
        joined = theirs if mine is None else _joined(mine, theirs)
        if joined is not mine:
            merged = dict(left) if merged is None else merged
            merged[key] = joined
    return left if merged is None else sort_level(merged)


def _joined(mine: FieldTree, theirs: FieldTree) -> FieldTree:
    if mine is theirs:
        return mine
    member = is_member(mine) or is_member(theirs)
    if not mine:
        below = theirs
    elif not theirs:
        below = mine
    else:
        below = union(mine, theirs)
    if member and below and MEMBER not in below:
        return {MEMBER: LEAF, **below}
    return below


def difference(left: FieldTree, right: FieldTree) -> FieldTree:
    """Return the members of `left` that are not in `right`; a parent and its child are different fields."""
    return _without(left, right, recursive=False)


def recursive_difference(left: FieldTree, right: FieldTree) -> FieldTree:
    """Return `left` without the members of `right` and everything below them."""
    return _without(left, right, recursive=True)


def _without(left: FieldTree, right: FieldTree, *, recursive: bool) -> FieldTree:
    """Return `left` without `right`; walks only the keys of `right`."""
    kept: FieldTree | None = None
    for key, theirs in right.items():
        mine = left.get(key)
        if mine is None or key == MEMBER:
            continue
        rest = _rest(mine, theirs, recursive=recursive)
        if rest is mine:
            continue
        kept = dict(left) if kept is None else kept
        if rest is None:
            del kept[key]
        else:
            kept[key] = rest
    return left if kept is None else kept


def _rest(mine: FieldTree, theirs: FieldTree, *, recursive: bool) -> FieldTree | None:
    taken = is_member(theirs)
    if taken and (recursive or not mine):
        return None
    below = _without(mine, theirs, recursive=recursive) if theirs else mine
    if taken and MEMBER in below:
        below = {key: child for key, child in below.items() if key != MEMBER}
    if below is mine or len(below) > 1:
        return below
    if not below:
        # `mine` had children (else it is returned above or taken), and lost or never had membership.
        return None
    return LEAF if MEMBER in below else below


def intersection(left: FieldTree, right: FieldTree) -> FieldTree:
    """Return the members of both sets."""
    both: FieldTree = {}
    for key, mine in left.items():
        theirs = right.get(key)
        if theirs is None or key == MEMBER:
            continue
        member = is_member(mine) and is_member(theirs)
        below = intersection(mine, theirs)
        if below:
            both[key] = {MEMBER: LEAF, **below} if member else below
        elif member:
            both[key] = LEAF
    return both


def has_path(tree: FieldTree, path: Iterable[str]) -> bool:
    """Return True if the path (in wire elements) is a member."""
    place: FieldTree | None = tree
    for element in path:
        place = None if place is None else place.get(element)
    return place is not None and place is not tree and is_member(place)


def paths(tree: FieldTree, prefix: ElementPath = ()) -> Iterator[ElementPath]:
    """Yield all members in upstream's order: a level's members first, then those below each."""
    for key, child in tree.items():
        if key != MEMBER and is_member(child):
            yield (*prefix, key)
    for key, child in tree.items():
        if key != MEMBER and child:
            yield from paths(child, (*prefix, key))


def leaves(tree: FieldTree) -> FieldTree:
    """Return only the members that have no members below."""
    return {key: leaves(child) if child else LEAF for key, child in tree.items() if key != MEMBER}


def format_path(path: Iterable[str]) -> str:
    """Format a path as in messages: `.spec.containers[name="c"].image`."""
    return "".join(map(format_element, path))


def decode_field_set(document: Any) -> FieldTree:
    """Decode a client's FieldsV1 document into canonical form and order; drops unknown kinds."""
    if document is None:
        return {}
    children, _ = _decoded(document)
    return children


def _decoded(document: Any) -> tuple[FieldTree, bool]:
    if not isinstance(document, dict):
        raise InvalidFields(f"expected an object, got {type(document).__name__}")
    tree: FieldTree = {}
    member = MEMBER in document
    for text, inner in document.items():
        if text == MEMBER:
            continue
        try:
            element = canonical(text)
        except InvalidElement as wrong:
            raise InvalidFields(f"parsing key as path element: {wrong}") from wrong
        if element is None:
            continue
        below, inner_member = _decoded(inner)
        joined = {MEMBER: LEAF, **below} if below and inner_member else below
        tree[element] = joined
    return sort_level(tree), member or not tree
