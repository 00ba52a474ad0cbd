# SPDX-License-Identifier: Apache-2.0
"""Entries of metadata.managedFields: their managers, their order, and validation of those that clients send."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from kubeloop.api.apply.fields.fieldset import FieldTree, InvalidFields, decode_field_set, union

ManagedFieldsEntry = dict[str, Any]
Operation = Literal["Apply", "Update"]

MAX_UPDATE_MANAGERS = 10
"""Beyond this many update entries the oldest are merged, so that objects don't grow without end."""

_ANCIENT = "ancient-changes"


class FieldManager(NamedTuple):
    """Field manager: a client and its operation. An applier is the same one whatever version it applies."""

    name: str
    operation: Operation
    api_version: str
    subresource: str = ""

    def matches(self, entry: ManagedFieldsEntry) -> bool:
        """Return True if an entry belongs to this manager."""
        same_version = self.operation == "Apply" or entry["apiVersion"] == self.api_version
        theirs = (entry["manager"], entry["operation"], entry.get("subresource", ""))
        return same_version and theirs == (self.name, self.operation, self.subresource)


def new_field_manager(name: str, operation: Operation, api_version: str, subresource: str) -> FieldManager:
    """Return the manager of a name; "unknown" if the name is empty."""
    return FieldManager(name or "unknown", operation, api_version, subresource)


def new_entry(manager: FieldManager, fields: FieldTree, time: str | None) -> ManagedFieldsEntry:
    """Build an entry in wire form, in upstream's order of fields."""
    entry: ManagedFieldsEntry = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": manager.api_version,
    }
    if time is not None:
        entry["time"] = time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = fields
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def with_fields(entry: ManagedFieldsEntry, fields: FieldTree) -> ManagedFieldsEntry:
    """Return an entry with other fields."""
    return {**entry, "fieldsV1": fields}


def find_entry(entries: Iterable[ManagedFieldsEntry], manager: FieldManager) -> ManagedFieldsEntry | None:
    """Return the entry of a manager, or None."""
    for entry in entries:
        if manager.matches(entry):
            return entry
    return None


def manager_identifier(entry: ManagedFieldsEntry) -> str:
    """Return a manager's identity as one string; conflicts are listed in this order."""
    parts = {"manager": entry["manager"], "operation": entry["operation"]}
    if entry["operation"] == "Update":
        parts["apiVersion"] = entry["apiVersion"]
    if entry.get("subresource"):
        parts["subresource"] = entry["subresource"]
    return json.dumps(parts, separators=(",", ":"), ensure_ascii=False)


def sort_entries(entries: list[ManagedFieldsEntry]) -> list[ManagedFieldsEntry]:
    """Sort entries: appliers before updaters, older before younger, then by name."""
    return sorted(entries, key=_rank) if len(entries) > 1 else entries


def _rank(entry: ManagedFieldsEntry) -> tuple[str, str, str, str, str]:
    return (
        entry["operation"],
        entry.get("time") or "",
        entry["manager"],
        entry["apiVersion"],
        entry.get("subresource", ""),
    )


def cap_update_managers(entries: list[ManagedFieldsEntry]) -> list[ManagedFieldsEntry]:
    """Merge the oldest updaters of a version until the limit is met."""
    updaters = [entry for entry in entries if entry["operation"] == "Update"]
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return entries
    kept = list(entries)
    buckets: dict[str, ManagedFieldsEntry] = {}
    for entry in sorted(updaters, key=lambda found: (found.get("time") or "", manager_identifier(found))):
        if excess <= 0:
            break
        bucket = buckets.get(entry["apiVersion"])
        if bucket is not None:
            kept = [other for other in kept if other is not entry and other is not bucket]
            entry = _merged(bucket, entry)
            kept.append(entry)
            excess -= 1
        buckets[entry["apiVersion"]] = entry
    return kept


def _merged(older: ManagedFieldsEntry, younger: ManagedFieldsEntry) -> ManagedFieldsEntry:
    ancient = FieldManager(_ANCIENT, "Update", younger["apiVersion"])
    return new_entry(ancient, union(older["fieldsV1"], younger["fieldsV1"]), younger.get("time"))


class InvalidEntries(ValueError):
    """Raised for a client's managedFields that cannot be decoded."""


def initial_entries(
    live: Sequence[ManagedFieldsEntry], requested: Any, *, by_subresource: bool
) -> list[ManagedFieldsEntry]:
    """Return the entries that an update starts with: the client's if usable, else the stored object's.

    An empty list, or one empty entry, resets all. A subresource cannot change them.
    """
    if by_subresource or requested is None or requested is live or requested == live:
        return list(live)
    if requested in ([], [{}]):
        return []
    try:
        return decode_entries(requested) or list(live)
    except InvalidEntries:
        return list(live)


def decode_entries(requested: Any) -> list[ManagedFieldsEntry]:
    """Decode a client's entries into canonical form; the last of several for one manager wins."""
    if not isinstance(requested, list):
        raise InvalidEntries("managedFields must be a list")
    found: dict[str, ManagedFieldsEntry] = {}
    for position, entry in enumerate(requested):
        canonical = _decoded_entry(entry, position)
        found[manager_identifier(canonical)] = canonical
    return list(found.values())


def _decoded_entry(entry: Any, position: int) -> ManagedFieldsEntry:
    if not isinstance(entry, dict) or entry.get("operation") not in ("Apply", "Update"):
        raise InvalidEntries("operation must be `Apply` or `Update`")
    if not entry.get("apiVersion"):
        raise InvalidEntries("apiVersion must not be empty")
    fields_type = entry.get("fieldsType")
    if not fields_type:
        raise InvalidEntries(f"missing fieldsType in managed fields entry {position}")
    if fields_type != "FieldsV1":
        raise InvalidEntries(f'invalid fieldsType "{fields_type}" in managed fields entry {position}')
    manager = FieldManager(
        entry.get("manager", ""), entry["operation"], entry["apiVersion"], entry.get("subresource") or ""
    )
    try:
        return new_entry(manager, decode_field_set(entry.get("fieldsV1")), entry.get("time"))
    except InvalidFields as wrong:
        raise InvalidEntries(f"error decoding set: {wrong}") from wrong


def is_equal_ignoring_timestamps(left: Sequence[ManagedFieldsEntry], right: Sequence[ManagedFieldsEntry]) -> bool:
    """Return True if two lists differ at most in their times; such a write is a no-op and keeps the old list."""
    return len(left) == len(right) and all(
        {**old, "time": None} == {**new, "time": None} for old, new in zip(left, right, strict=True)
    )
