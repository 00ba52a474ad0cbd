# SPDX-License-Identifier: Apache-2.0
"""Filters for the fields that a request may set (upstream's reset fields)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from kubeloop.api.apply.fields.fieldset import FieldTree, field_set, is_member, recursive_difference
from kubeloop.api.apply.fields.path_elements import MEMBER, field_element

FieldFilter: TypeAlias = Callable[[FieldTree], FieldTree]
"""Of a set of fields, those that a request may set."""

# Any item of a list, in a pattern.
ANY_ITEM = "*"


def exclude_fields(*paths: Iterable[str]) -> FieldFilter:
    """Return a filter that drops the fields at these paths and everything below them."""
    left_out = field_set(*paths)
    return lambda fields: recursive_difference(fields, left_out)


def include_fields(*paths: Iterable[str]) -> FieldFilter:
    """Return a filter that keeps only the fields above, at and below these paths."""
    pattern: FieldTree = {}
    for path in paths:
        place = pattern
        for name in path:
            place = place.setdefault(name if name == ANY_ITEM else field_element(name), {})
    return lambda fields: _matching(fields, pattern)


def _matching(fields: FieldTree, pattern: FieldTree) -> FieldTree:
    kept: FieldTree = {}
    for element, below in fields.items():
        wanted = pattern.get(element, pattern.get(ANY_ITEM)) if element != MEMBER else None
        if wanted is None:
            continue
        # The end of a path stands for everything below it.
        rest = _matching(below, wanted) if wanted else below
        if is_member(below) and wanted and MEMBER not in rest:
            rest = {MEMBER: {}, **rest} if rest else {}
        if rest or is_member(below):
            kept[element] = rest
    return kept
