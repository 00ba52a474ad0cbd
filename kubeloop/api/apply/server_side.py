"""Server-side apply: sets a manager's fields, removes those it no longer applies unless another manager owns them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kubeloop.api.apply import last_applied
from kubeloop.api.apply.change import Convert, ObjectChange
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
from kubeloop.api.apply.settable import FieldFilter
from kubeloop.api.apply.shape import OwnershipShape, shape_of
from kubeloop.api.apply.validate import format_schema_errors, iter_schema_errors
from kubeloop.api.errors import ApiError, bad_request
from kubeloop.api.schema import SchemaNode

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
    node: SchemaNode,
    kind: str,
    manager: str,
    api_version: str,
    subresource: str,
    force: bool,
    now: str,
    entries: Sequence[ManagedFieldsEntry],
    settable: FieldFilter | None = None,
    convert: Convert | None = None,
) -> ApplyResult:
    """Apply a configuration to the stored object (None: create it), or raise the ApiError for the client.

    `kind` and `api_version` are those of the resource; `entries` are the stored managedFields; fields that aren't
    `settable` can't be changed by this request; `convert` is for kinds of several versions, whose managers may have
    used another one.
    """
    _check_type(config, kind, api_version)
    shape = shape_of(node)
    who = new_field_manager(manager, "Apply", api_version, subresource)
    current = list(entries)
    if live is not None and not current:
        first = new_field_manager(_BEFORE_FIRST_APPLY, "Update", api_version, subresource)
        current = transfer_fields(ObjectChange(None, live, shape, api_version, settable, None), first, now, current)
    _check_config(config, shape)
    outcome = _Application(config, shape, who, force, now, settable, convert).to(live or {}, current)
    if manager == last_applied.MANAGER:
        return ApplyResult(last_applied.update_last_applied(outcome.obj, config), outcome.entries)
    return outcome


def _check_type(config: dict[str, Any], kind: str, api_version: str) -> None:
    if config.get("apiVersion") != api_version or config.get("kind") != kind:
        raise bad_request(f"invalid object type: {_group_version_kind(config)}")


def _check_config(config: dict[str, Any], shape: OwnershipShape) -> None:
    metadata = config.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    if metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    found = list(iter_schema_errors(config, shape))
    if found:
        place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {_group_version_kind(config)}"
        raise ApiError(f"failed to create typed patch object ({place}): {format_schema_errors(found)}")


def _group_version_kind(config: dict[str, Any]) -> str:
    version, kind = str(config.get("apiVersion") or ""), config.get("kind") or ""
    return f"{version if '/' in version else '/' + version}, Kind={kind}"


class _Application(NamedTuple):
    """Valid configuration with the parameters of its request."""

    config: dict[str, Any]
    shape: OwnershipShape
    manager: FieldManager
    force: bool
    now: str
    settable: FieldFilter | None
    convert: Convert | None

    def to(self, live: dict[str, Any], entries: list[ManagedFieldsEntry]) -> ApplyResult:
        previous = find_entry(entries, self.manager)
        others = [entry for entry in entries if entry is not previous]
        claimed = applied_fields(self.config, self.shape)
        if self.settable is not None:
            claimed = self.settable(claimed)
        obj = merge_applied(live, self.config, self.shape)
        if previous is not None:
            mine = (self.manager.api_version, claimed)
            owned = [mine, *((entry["apiVersion"], entry["fieldsV1"]) for entry in others)]
            whole = VersionedObject(obj, self.manager.api_version, self.shape)
            obj = prune_abandoned_fields(whole, previous, owned, self.convert)
        change = ObjectChange(live, obj, self.shape, self.manager.api_version, self.settable, self.convert)
        self._refuse_conflicts(live, change, others)
        unchanged = is_json_equal(live, obj)
        kept = remove_fields(others, change)
        fields = difference(claimed, NEVER_OWNED)
        if fields:
            kept.append(new_entry(self.manager, fields, (previous or {}).get("time") if unchanged else self.now))
        return ApplyResult(live if unchanged else obj, sort_entries(kept))

    def _refuse_conflicts(self, live: dict[str, Any], change: ObjectChange, others: list[ManagedFieldsEntry]) -> None:
        conflicts = [] if self.force else find_conflicts(others, change)
        if conflicts and self.manager.name == last_applied.MANAGER:
            conflicts = last_applied.remaining_conflicts(conflicts, live, self.shape, self.manager.api_version)
        if conflicts:
            raise conflict_error(conflicts)
