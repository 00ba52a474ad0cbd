"""Entries of metadata.managedFields: their managers, their order, and validation of those that clients send."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from kubeloop.api.apply.fields.fieldset import FieldTree, InvalidFields, decode, union

Entry = dict[str, Any]
Operation = Literal["Apply", "Update"]

MAX_UPDATE_MANAGERS = 10
"""Beyond this many update entries the oldest are merged, so that objects don't grow without end."""

_ANCIENT = "ancient-changes"


class Manager(NamedTuple):
    """Field manager: a client and its operation. An applier is the same one whatever version it applies."""

    name: str
    operation: Operation
    api_version: str
    subresource: str = ""

    def same_as(self, entry: Entry) -> bool:
        """Return True if an entry belongs to this manager."""
        same_version = self.operation == "Apply" or entry["apiVersion"] == self.api_version
        theirs = (entry["manager"], entry["operation"], entry.get("subresource", ""))
        return same_version and theirs == (self.name, self.operation, self.subresource)


def manager_named(name: str, operation: Operation, api_version: str, subresource: str) -> Manager:
    """Return the manager of a name; "unknown" if the name is empty."""
    return Manager(name or "unknown", operation, api_version, subresource)


def new_entry(manager: Manager, fields: FieldTree, time: str | None) -> Entry:
    """Build an entry in wire form, in upstream's order of fields."""
    entry: Entry = {"manager": manager.name, "operation": manager.operation, "apiVersion": manager.api_version}
    if time is not None:
        entry["time"] = time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = fields
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def with_fields(entry: Entry, fields: FieldTree) -> Entry:
    """Return an entry with other fields."""
    return {**entry, "fieldsV1": fields}


def find(entries: Iterable[Entry], manager: Manager) -> Entry | None:
    """Return the entry of a manager, or None."""
    return next((entry for entry in entries if manager.same_as(entry)), None)


def identifier(entry: Entry) -> str:
    """Return a manager's identity as one string; conflicts are listed in this order."""
    parts = {"manager": entry["manager"], "operation": entry["operation"]}
    if entry["operation"] == "Update":
        parts["apiVersion"] = entry["apiVersion"]
    if entry.get("subresource"):
        parts["subresource"] = entry["subresource"]
    return json.dumps(parts, separators=(",", ":"), ensure_ascii=False)


def in_order(entries: list[Entry]) -> list[Entry]:
    """Sort entries: appliers before updaters, older before younger, then by name."""
    return sorted(entries, key=_rank) if len(entries) > 1 else entries


def _rank(entry: Entry) -> tuple[str, str, str, str, str]:
    return (
        entry["operation"],
        entry.get("time") or "",
        entry["manager"],
        entry["apiVersion"],
        entry.get("subresource", ""),
    )


def capped(entries: list[Entry]) -> list[Entry]:
    """Merge the oldest updaters of a version until the limit is met."""
    updaters = [entry for entry in entries if entry["operation"] == "Update"]
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return entries
    kept = list(entries)
    buckets: dict[str, Entry] = {}
    for entry in sorted(updaters, key=lambda found: (found.get("time") or "", identifier(found))):
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


def _merged(older: Entry, younger: Entry) -> Entry:
    ancient = Manager(_ANCIENT, "Update", younger["apiVersion"])
    return new_entry(ancient, union(older["fieldsV1"], younger["fieldsV1"]), younger.get("time"))


class InvalidEntries(ValueError):
    """Raised for a client's managedFields that cannot be decoded."""


def starting_entries(live: Sequence[Entry], requested: Any, *, by_subresource: bool) -> list[Entry]:
    """Return the entries that an update starts with: the client's if usable, else the stored object's.

    An empty list, or one empty entry, resets all. A subresource cannot change them.
    """
    if by_subresource or requested is None or requested is live or requested == live:
        return list(live)
    if requested in ([], [{}]):
        return []
    try:
        return decoded(requested) or list(live)
    except InvalidEntries:
        return list(live)


def decoded(requested: Any) -> list[Entry]:
    """Decode a client's entries into canonical form; the last of several for one manager wins."""
    if not isinstance(requested, list):
        raise InvalidEntries("managedFields must be a list")
    found: dict[str, Entry] = {}
    for position, entry in enumerate(requested):
        canonical = _decoded_entry(entry, position)
        found[identifier(canonical)] = canonical
    return list(found.values())


def _decoded_entry(entry: Any, position: int) -> Entry:
    if not isinstance(entry, dict) or entry.get("operation") not in ("Apply", "Update"):
        raise InvalidEntries("operation must be `Apply` or `Update`")
    if not entry.get("apiVersion"):
        raise InvalidEntries("apiVersion must not be empty")
    fields_type = entry.get("fieldsType")
    if not fields_type:
        raise InvalidEntries(f"missing fieldsType in managed fields entry {position}")
    if fields_type != "FieldsV1":
        raise InvalidEntries(f'invalid fieldsType "{fields_type}" in managed fields entry {position}')
    manager = Manager(entry.get("manager", ""), entry["operation"], entry["apiVersion"], entry.get("subresource") or "")
    try:
        return new_entry(manager, decode(entry.get("fieldsV1")), entry.get("time"))
    except InvalidFields as wrong:
        raise InvalidEntries(f"error decoding set: {wrong}") from wrong


def same_but_times(left: Sequence[Entry], right: Sequence[Entry]) -> bool:
    """Return True if two lists differ at most in their times; such a write is a no-op and keeps the old list."""
    return len(left) == len(right) and all(
        {**old, "time": None} == {**new, "time": None} for old, new in zip(left, right, strict=True)
    )
