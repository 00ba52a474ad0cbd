# SPDX-License-Identifier: Apache-2.0
"""Conflicts of an apply with the fields of other managers, and the error for the client."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from kubeloop.api.apply.change import ObjectChange
from kubeloop.api.apply.fields.fieldset import ElementPath, format_path, intersection, paths
from kubeloop.api.apply.fields.managed_fields_entries import ManagedFieldsEntry, manager_identifier
from kubeloop.api.errors import Conflict, StatusCause, apply_conflict


class FieldConflict(NamedTuple):
    """Field that an apply would take from another manager."""

    owner: ManagedFieldsEntry
    path: ElementPath


def find_conflicts(entries: Iterable[ManagedFieldsEntry], change: ObjectChange) -> list[FieldConflict]:
    """Return the changed fields that these managers own, manager by manager."""
    found: list[FieldConflict] = []
    for entry in sorted(entries, key=manager_identifier):
        seen = change.compare_in(entry["apiVersion"])
        if seen is not None:
            found += [FieldConflict(entry, path) for path in paths(intersection(entry["fieldsV1"], seen.changed))]
    return found


def conflict_error(conflicts: list[FieldConflict]) -> Conflict:
    """Build the error that lists all conflicts."""
    causes = [
        StatusCause("FieldManagerConflict", f"conflict with {_named(owner)}", format_path(path))
        for owner, path in conflicts
    ]
    return apply_conflict(_message(conflicts), causes)


def _message(conflicts: list[FieldConflict]) -> str:
    if len(conflicts) == 1:
        owner, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {_named(owner)}: {format_path(path)}"
    lines: list[str] = []
    previous: ManagedFieldsEntry | None = None
    for owner, path in conflicts:
        if owner is not previous:
            lines.append(f"conflicts with {_named(owner)}:")
            previous = owner
        lines.append(f"- {format_path(path)}")
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def _named(owner: ManagedFieldsEntry) -> str:
    name = json.dumps(owner["manager"], ensure_ascii=False)
    if owner.get("subresource"):
        name += f" with subresource {json.dumps(owner['subresource'])}"
    return f"{name} using {owner['apiVersion']}" if owner["operation"] == "Update" else name
