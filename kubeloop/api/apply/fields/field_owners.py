# SPDX-License-Identifier: Apache-2.0
"""Ownership of fields after a create, an update or a patch that is no apply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubeloop.api.apply.change import ManagedWrite, ObjectChange
from kubeloop.api.apply.fields.fieldset import FieldTree, difference, field_set, union
from kubeloop.api.apply.fields.managed_fields_entries import (
    FieldManager,
    ManagedFieldsEntry,
    cap_update_managers,
    find_entry,
    initial_entries,
    new_entry,
    new_field_manager,
    sort_entries,
    with_fields,
)

NEVER_OWNED: FieldTree = field_set(
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


def update_field_owners(
    old: dict[str, Any] | None,
    new: dict[str, Any],
    write: ManagedWrite,
    entries: Sequence[ManagedFieldsEntry],
) -> list[ManagedFieldsEntry]:
    """Return the managedFields of `new`, which replaces `old` (None on create).

    `entries` are those of the stored object; the entries that the client put into `new` are considered too.
    """
    metadata = new.get("metadata") or {}
    current = initial_entries(entries, metadata.get("managedFields"), by_subresource=bool(write.subresource))
    if old is not None and not current:
        # An object whose entries were reset is tracked again from its next apply on.
        return current
    manager = new_field_manager(write.manager, "Update", write.api_version, write.subresource)
    return transfer_fields(ObjectChange(old, new, write), manager, write.now, current)


def transfer_fields(
    change: ObjectChange, manager: FieldManager, now: str, entries: list[ManagedFieldsEntry]
) -> list[ManagedFieldsEntry]:
    """Give the changed fields to `manager`, and remove changed or deleted fields from all other managers."""
    changed, removed = change.main
    gained = difference(changed, NEVER_OWNED)
    previous = find_entry(entries, manager)
    kept = remove_fields([entry for entry in entries if entry is not previous], change)
    if previous is not None:
        # Fields that the manager owned and changed again stay its own: only removed ones are taken.
        previous = with_remaining_fields(previous, difference(previous["fieldsV1"], removed))
    if gained:
        mine = gained if previous is None else union(previous["fieldsV1"], gained)
        previous = new_entry(manager, mine, now)
    if previous is not None:
        kept.append(previous)
    return sort_entries(cap_update_managers(kept))


def remove_fields(entries: list[ManagedFieldsEntry], change: ObjectChange) -> list[ManagedFieldsEntry]:
    """Return the entries without changed or removed fields; an entry of a version that is gone is dropped."""
    kept: list[ManagedFieldsEntry] = []
    for entry in entries:
        seen = change.compare_in(entry["apiVersion"])
        if seen is None:
            continue
        rest = with_remaining_fields(entry, difference(entry["fieldsV1"], union(seen.changed, seen.removed)))
        if rest is not None:
            kept.append(rest)
    return kept


def with_remaining_fields(entry: ManagedFieldsEntry, fields: FieldTree) -> ManagedFieldsEntry | None:
    """Return the entry with its remaining fields: itself if these are all, None if there are none."""
    if fields is entry["fieldsV1"]:
        return entry
    return with_fields(entry, fields) if fields else None
