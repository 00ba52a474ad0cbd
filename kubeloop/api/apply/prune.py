# SPDX-License-Identifier: Apache-2.0
"""Pruning of fields that an applier no longer applies and no other manager owns, in the managers' versions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kubeloop.api.apply.change import Convert
from kubeloop.api.apply.fields.fieldset import FieldTree, difference, intersection, union
from kubeloop.api.apply.fields.managed_fields_entries import ManagedFieldsEntry
from kubeloop.api.apply.merge import applied_fields, remove_fields, with_structs
from kubeloop.api.apply.shape import OwnershipShape, shape_of

Owned = Iterable[tuple[str, FieldTree]]
"""Versions, and what somebody owns in them."""


class VersionedObject(NamedTuple):
    """Object in one version, with the shape of that version."""

    obj: dict[str, Any]
    version: str
    shape: OwnershipShape

    def convert_to(self, version: str, convert: Convert | None) -> VersionedObject | None:
        """Convert to another version; None if it does not exist. Without a converter all versions are alike."""
        if convert is None or version == self.version:
            return self
        found = convert(self.obj, version)
        return None if found is None else VersionedObject(found[0], version, shape_of(found[1]))

    def field_set(self) -> FieldTree:
        """Return the fields that the object sets, including the structs above them."""
        return with_structs(applied_fields(self.obj, self.shape), self.shape)

    def remove(self, fields: FieldTree) -> VersionedObject:
        """Return the object without the given fields."""
        return self._replace(obj=remove_fields(self.obj, fields, self.shape) or {}) if fields else self


def prune_abandoned_fields(
    merged: VersionedObject, before: ManagedFieldsEntry, owned: Owned, convert: Convert | None
) -> dict[str, Any]:
    """Remove the fields that the applier owned before and that have no owner now.

    Works in steps, so that fields of other managers survive, and unowned fields inside of removed ones too.
    """
    start = merged.convert_to(before["apiVersion"], convert)
    if start is None:
        return merged.obj
    given_up = with_structs(before["fieldsV1"], start.shape)
    pruned = _with_owned(start, start.remove(given_up), owned, convert)
    back = pruned.convert_to(start.version, convert)
    left = pruned.field_set() if back is None else back.field_set()
    gone = intersection(difference(start.field_set(), left), given_up)
    if not gone:
        return merged.obj
    result = start.remove(gone).convert_to(merged.version, convert)
    return merged.obj if result is None else result.obj


def _with_owned(
    whole: VersionedObject, pruned: VersionedObject, owned: Owned, convert: Convert | None
) -> VersionedObject:
    """Restore all owned fields in the pruned object; the version at hand goes first."""
    by_version: dict[str, FieldTree] = {whole.version: {}}
    for version, fields in owned:
        key = version if convert is not None else whole.version
        by_version[key] = union(by_version.get(key, {}), fields)
    for version, fields in by_version.items():
        there, left = whole.convert_to(version, convert), pruned.convert_to(version, convert)
        if there is None or left is None:
            continue
        kept = union(left.field_set(), with_structs(fields, there.shape))
        whole, pruned = there, there.remove(difference(there.field_set(), kept))
    return pruned
