"""Field managers of the replica count, mapped between the scaled object and its Scale.

A Scale has no other managed field than the replicas, so its entries are those of the scaled object that own them; after
a write to the scale, the scaled object's entries are updated from the scale's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubeloop.api.apply.fields.fieldset import difference, field_set
from kubeloop.api.apply.fields.managed_fields_entries import (
    ManagedFieldsEntry,
    manager_identifier,
    sort_entries,
    with_fields,
)

# Built-in kinds have the same path as the Scale; custom resources configure it.
REPLICAS = ("spec", "replicas")


def entries_for_scale(
    parent: Sequence[ManagedFieldsEntry], replicas: tuple[str, ...] = REPLICAS
) -> list[ManagedFieldsEntry]:
    """Return the scaled object's entries that own its replicas, reduced to that field."""
    return [with_fields(entry, field_set(REPLICAS)) for entry in parent if _owns(entry, replicas)]


def entries_for_parent(
    parent: Sequence[ManagedFieldsEntry],
    scale: Sequence[ManagedFieldsEntry],
    api_version: str,
    replicas: tuple[str, ...] = REPLICAS,
) -> list[ManagedFieldsEntry]:
    """Return the scaled object's entries after its scale's have changed to `scale`.

    New entries have no time: upstream takes times from the scaled object's own entries alone.
    """
    remaining = {manager_identifier(entry): entry for entry in scale}
    kept: list[ManagedFieldsEntry] = []
    for entry in parent:
        if _owns(entry, replicas) and remaining.pop(manager_identifier(entry), None) is None:
            fields = difference(entry["fieldsV1"], field_set(replicas))
            kept += [with_fields(entry, fields)] if fields else []
        else:
            kept.append(entry)
    kept += [_in_parent(entry, api_version, replicas) for entry in remaining.values() if _owns(entry, REPLICAS)]
    return sort_entries(kept)


def _owns(entry: ManagedFieldsEntry, path: tuple[str, ...]) -> bool:
    fields: Any = entry["fieldsV1"]
    for name in path:
        fields = fields.get(f"f:{name}") if isinstance(fields, dict) else None
    return fields is not None


def _in_parent(entry: ManagedFieldsEntry, api_version: str, replicas: tuple[str, ...]) -> ManagedFieldsEntry:
    timeless = {key: value for key, value in entry.items() if key != "time"}
    return {**timeless, "apiVersion": api_version, "fieldsV1": field_set(replicas)}
