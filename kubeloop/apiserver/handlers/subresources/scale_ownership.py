"""Field managers of the replica count, mapped between the scaled object and its Scale.

A Scale has no other managed field than the replicas, so its entries are those of the scaled object that own them; after
a write to the scale, the scaled object's entries are updated from the scale's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubeloop.api.apply.fields.fieldset import difference, of
from kubeloop.api.apply.fields.managed_fields_entries import Entry, identifier, in_order, with_fields

# Built-in kinds have the same path as the Scale; custom resources configure it.
REPLICAS = ("spec", "replicas")


def entries_for_scale(parent: Sequence[Entry], replicas: tuple[str, ...] = REPLICAS) -> list[Entry]:
    """Return the scaled object's entries that own its replicas, reduced to that field."""
    return [with_fields(entry, of(REPLICAS)) for entry in parent if _owns(entry, replicas)]


def entries_for_parent(
    parent: Sequence[Entry], scale: Sequence[Entry], api_version: str, replicas: tuple[str, ...] = REPLICAS
) -> list[Entry]:
    """Return the scaled object's entries after its scale's have changed to `scale`.

    New entries have no time: upstream takes times from the scaled object's own entries alone.
    """
    remaining = {identifier(entry): entry for entry in scale}
    kept: list[Entry] = []
    for entry in parent:
        if _owns(entry, replicas) and remaining.pop(identifier(entry), None) is None:
            fields = difference(entry["fieldsV1"], of(replicas))
            kept += [with_fields(entry, fields)] if fields else []
        else:
            kept.append(entry)
    kept += [_in_parent(entry, api_version, replicas) for entry in remaining.values() if _owns(entry, REPLICAS)]
    return in_order(kept)


def _owns(entry: Entry, path: tuple[str, ...]) -> bool:
    fields: Any = entry["fieldsV1"]
    for name in path:
        fields = fields.get(f"f:{name}") if isinstance(fields, dict) else None
    return fields is not None


def _in_parent(entry: Entry, api_version: str, replicas: tuple[str, ...]) -> Entry:
    timeless = {key: value for key, value in entry.items() if key != "time"}
    return {**timeless, "apiVersion": api_version, "fieldsV1": of(replicas)}
