"""Who owns what after a create, an update or a patch that is no apply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubeloop.api.apply.compare import Comparison, compare
from kubeloop.api.apply.entries import (
    Entry,
    Manager,
    capped,
    find,
    in_order,
    manager_named,
    new_entry,
    starting_entries,
    with_fields,
)
from kubeloop.api.apply.fieldset import FieldTree, difference, of, recursive_difference, union
from kubeloop.api.apply.shape import Shape, shape_of
from kubeloop.api.schema import Node

NEVER_OWNED: FieldTree = of(
    ("apiVersion",),
    ("kind",),
    ("metadata",),
    ("metadata", "clusterName"),
    ("metadata", "creationTimestamp"),
    ("metadata", "generation"),
    ("metadata", "managedFields"),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "resourceVersion"),
    ("metadata", "selfLink"),
    ("metadata", "uid"),
)
"""Identity and bookkeeping, which the server alone decides."""


def track_update(
    old: dict[str, Any] | None,
    new: dict[str, Any],
    node: Node,
    manager: str,
    api_version: str,
    subresource: str,
    now: str,
    entries: Sequence[Entry],
    reset: FieldTree | None = None,
) -> list[Entry]:
    """The managedFields of `new`, which replaces `old` (None when it is created).

    `entries` are those of the stored object; what the client put into `new` is considered too. Fields in `reset` are
    not the request's to change (status on the main resource), and so are never owned through it.
    """
    metadata = new.get("metadata") or {}
    current = starting_entries(entries, metadata.get("managedFields"), by_subresource=bool(subresource))
    if old is not None and not current:
        # An object without entries was made to forget them; it is tracked again from its next apply on.
        return current
    shape = shape_of(node)
    who = manager_named(manager, "Update", api_version, subresource)
    return update_entries(live_or_zero(old, shape), new, shape, who, now, current, reset)


def live_or_zero(live: dict[str, Any] | None, shape: Shape) -> dict[str, Any]:
    """What a new object is compared with: upstream's empty object, in which structs and required fields are there."""
    return shape.zero if live is None else live


def update_entries(
    old: dict[str, Any],
    new: dict[str, Any],
    shape: Shape,
    manager: Manager,
    now: str,
    entries: list[Entry],
    reset: FieldTree | None = None,
) -> list[Entry]:
    """Moves what changed to `manager`, and takes what changed or went from everybody else."""
    comparison = without_reset(compare(old, new, shape), reset)
    kept = take_away(entries, union(comparison.changed, comparison.removed))
    mine = difference(comparison.changed, NEVER_OWNED)
    if not mine:
        return kept if kept == entries else in_order(kept)
    previous = find(kept, manager)
    if previous is not None:
        mine = union(previous["fieldsV1"], mine)
        kept = [entry for entry in kept if entry is not previous]
    kept.append(new_entry(manager, mine, now))
    return in_order(capped(kept))


def without_reset(comparison: Comparison, reset: FieldTree | None) -> Comparison:
    if not reset:
        return comparison
    return Comparison(recursive_difference(comparison.changed, reset), recursive_difference(comparison.removed, reset))


def take_away(entries: list[Entry], lost: FieldTree) -> list[Entry]:
    """The entries without the lost fields; untouched ones stay the same objects, empty ones go."""
    kept: list[Entry] = []
    for entry in entries:
        fields = entry["fieldsV1"]
        rest = difference(fields, lost)
        if rest is fields:
            kept.append(entry)
        elif rest:
            kept.append(with_fields(entry, rest))
    return kept
