# SPDX-License-Identifier: Apache-2.0
"""Server-side apply: sets a manager's fields, removes those it no longer applies unless another manager owns them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kubeloop.api.apply import last_applied_configuration
from kubeloop.api.apply.change import ManagedWrite, ObjectChange
from kubeloop.api.apply.conflicts import conflict_error, find_conflicts
from kubeloop.api.apply.fields.compare import is_json_equal
from kubeloop.api.apply.fields.field_owners import NEVER_OWNED, remove_fields, transfer_fields
from kubeloop.api.apply.fields.fieldset import difference
from kubeloop.api.apply.fields.managed_fields_entries import (
    FieldManager,
    ManagedFieldsEntry,
    find_entry,
    new_entry,
    new_field_manager,
    sort_entries,
)
from kubeloop.api.apply.merge import applied_fields, merge_applied
from kubeloop.api.apply.prune import VersionedObject, prune_abandoned_fields
from kubeloop.api.apply.shape import InvalidListItem, OwnershipShape, shape_of
from kubeloop.api.apply.validate import format_schema_errors, iter_schema_errors
from kubeloop.api.errors import ApiError, bad_request
from kubeloop.api.scalars.times import parse_time

_ENTRY_TEXTS = ("manager", "operation", "apiVersion", "fieldsType", "subresource")
_BEFORE_FIRST_APPLY = "before-first-apply"
"""Owns what an untracked object held when it was first applied to."""


class ApplyResult(NamedTuple):
    """Result of an apply. `obj` is the stored object itself if nothing changed.

    The object is not defaulted yet, and null means absent in it, as in any request.
    """

    obj: dict[str, Any]
    entries: list[ManagedFieldsEntry]


def apply(
    live: dict[str, Any] | None,
    config: dict[str, Any],
    write: ManagedWrite,
    entries: Sequence[ManagedFieldsEntry],
    *,
    force: bool = False,
) -> ApplyResult:
    """Apply a configuration to the stored object (None: create it), or raise the ApiError for the client.

    `entries` are the stored managedFields. With `force`, fields are taken from other managers.
    """
    _check_type(config, write.kind, write.api_version)
    shape = shape_of(write.node)
    who = new_field_manager(write.manager, "Apply", write.api_version, write.subresource)
    current = list(entries)
    if live is not None and not current:
        current = _initial_owner(live, write, shape)
    _check_config(config, shape)
    try:
        outcome = _Application(config, write, shape, who, force).to(live or {}, current)
    except InvalidListItem:
        why = _item_errors(live or {}, shape)
        raise ApiError(f"failed to create typed live object ({describe(live or {})}): {why}") from None
    if write.manager == last_applied_configuration.MANAGER:
        return ApplyResult(last_applied_configuration.update_last_applied(outcome.obj, config), outcome.entries)
    return outcome


def _initial_owner(live: dict[str, Any], write: ManagedWrite, shape: OwnershipShape) -> list[ManagedFieldsEntry]:
    """Return the entry that owns all fields of an untracked object."""
    first = new_field_manager(_BEFORE_FIRST_APPLY, "Update", write.api_version, write.subresource)
    try:
        return transfer_fields(ObjectChange(None, live, write), first, write.now, [])
    except InvalidListItem:
        raise ApiError(
            "failed to create manager for existing fields: "
            f"failed to convert new object ({describe(live)}) to smd typed: {_item_errors(live, shape)}"
        ) from None


def _item_errors(live: dict[str, Any], shape: OwnershipShape) -> str:
    """Describe the list items of a stored object that lack their keys; it may have duplicates."""
    found = [one for one in iter_schema_errors(live, shape) if not one.message.startswith("duplicate entries")]
    return format_schema_errors(found)


def _check_type(config: dict[str, Any], kind: str, api_version: str) -> None:
    if config.get("apiVersion") != api_version or config.get("kind") != kind:
        raise bad_request(f"invalid object type: {_group_version_kind(config)}")


def _check_config(config: dict[str, Any], shape: OwnershipShape) -> None:
    metadata = config.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    if _has_managed_fields(metadata.get("managedFields")):
        raise bad_request("metadata.managedFields must be nil")
    found = list(iter_schema_errors(config, shape))
    if found:
        raise ApiError(f"failed to create typed patch object ({describe(config)}): {format_schema_errors(found)}")


def _has_managed_fields(value: Any) -> bool:
    """Return True for a list of entries; a value that is none counts as absent here, its type is checked later."""
    return isinstance(value, list) and all(isinstance(entry, dict) and _is_entry(entry) for entry in value)


def _is_entry(entry: dict[str, Any]) -> bool:
    if not all(isinstance(entry.get(name) or "", str) for name in _ENTRY_TEXTS):
        return False
    time = entry.get("time")
    if time is None:
        return True
    try:
        return isinstance(time, str) and bool(parse_time(time))
    except ValueError:
        return False


def describe(document: dict[str, Any]) -> str:
    """Return namespace, name and kind of an object, as errors name it; a name that is no string counts as none."""
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    namespace, name = (one if isinstance(one := metadata.get(key), str) else "" for key in ("namespace", "name"))
    return f"{namespace}/{name}; {_group_version_kind(document)}"


def _group_version_kind(config: dict[str, Any]) -> str:
    version, kind = (one if isinstance(one := config.get(key), str) else "" for key in ("apiVersion", "kind"))
    return f"{version if '/' in version else '/' + version}, Kind={kind}"


class _Application(NamedTuple):
    """Valid configuration with the parameters of its request."""

    config: dict[str, Any]
    write: ManagedWrite
    shape: OwnershipShape
    manager: FieldManager
    force: bool

    def to(self, live: dict[str, Any], entries: list[ManagedFieldsEntry]) -> ApplyResult:
        previous = find_entry(entries, self.manager)
        others = [entry for entry in entries if entry is not previous]
        claimed = applied_fields(self.config, self.shape)
        if self.write.settable is not None:
            claimed = self.write.settable(claimed)
        obj = merge_applied(live, self.config, self.shape)
        if previous is not None:
            mine = (self.manager.api_version, claimed)
            owned = [mine, *((entry["apiVersion"], entry["fieldsV1"]) for entry in others)]
            whole = VersionedObject(obj, self.manager.api_version, self.shape)
            obj = prune_abandoned_fields(whole, previous, owned, self.write.convert)
        change = ObjectChange(live, obj, self.write)
        self._refuse_conflicts(live, change, others)
        unchanged = is_json_equal(live, obj)
        kept = remove_fields(others, change)
        fields = difference(claimed, NEVER_OWNED)
        if fields:
            kept.append(new_entry(self.manager, fields, (previous or {}).get("time") if unchanged else self.write.now))
        return ApplyResult(live if unchanged else obj, sort_entries(kept))

    def _refuse_conflicts(self, live: dict[str, Any], change: ObjectChange, others: list[ManagedFieldsEntry]) -> None:
        conflicts = [] if self.force else find_conflicts(others, change)
        if conflicts and self.manager.name == last_applied_configuration.MANAGER:
            conflicts = last_applied_configuration.remaining_conflicts(
                conflicts, live, self.shape, self.manager.api_version
            )
        if conflicts:
            raise conflict_error(conflicts)
