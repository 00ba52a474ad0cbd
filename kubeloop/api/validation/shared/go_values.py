# SPDX-License-Identifier: Apache-2.0
"""Rejected values in upstream's order and format.

Upstream prints some rejected values as its internal structures: capitalised names, fields in their own order, absent
ones as null. `internal` converts our structs into that form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from kubeloop.api.generated import meta_v1
from kubeloop.api.validation.shared.internal_fields import INTERNAL_FIELDS, RENAMED

# The order in which upstream's metadata structure has its fields.
_META = (
    ("name", "name"), ("generateName", "generate_name"), ("namespace", "namespace"), ("uid", "uid"),
    ("resourceVersion", "resource_version"), ("generation", "generation"),
    ("creationTimestamp", "creation_timestamp"), ("deletionTimestamp", "deletion_timestamp"),
    ("deletionGracePeriodSeconds", "deletion_grace_period_seconds"), ("labels", "labels"),
    ("annotations", "annotations"), ("ownerReferences", "owner_references"), ("finalizers", "finalizers"),
    ("managedFields", "managed_fields"),
)  # fmt: skip


def ordered_object(fields: dict[str, Any]) -> msgspec.Raw:
    """Return a JSON object whose fields are shown in the given order."""
    return msgspec.Raw(msgspec.json.encode(fields, enc_hook=str))


def to_internal(value: Any) -> Any:
    """Return a struct, or a list of them, in upstream's internal form."""
    plain = _plain(value)
    return plain if plain is None else msgspec.Raw(msgspec.json.encode(plain, enc_hook=str))


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        if isinstance(value, meta_v1.LabelSelector):
            return _selector(value)
        return dict(_fields(value)) if type(value).__name__ in INTERNAL_FIELDS else value
    if isinstance(value, tuple):
        return [_plain(one) for one in value] or None
    if isinstance(value, Mapping):
        return {key: _plain(value[key]) for key in sorted(value)} or None
    return value


def _selector(selector: meta_v1.LabelSelector) -> dict[str, Any]:
    """Return a selector, which has the same names internally, with upstream's order of fields."""
    expressions = [
        {"key": one.key, "operator": one.operator, **({"values": one.values} if one.values else {})}
        for one in selector.match_expressions
    ]
    fields = {"matchLabels": dict(sorted(selector.match_labels.items())), "matchExpressions": expressions}
    return {name: value for name, value in fields.items() if value}


def _fields(value: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    for name, attribute in _attributes(type(value)):
        if name == "@":
            yield from _meta_fields(getattr(value, attribute))
        else:
            yield name, _plain(getattr(value, attribute))


def _meta_fields(meta: meta_v1.ObjectMeta) -> Iterator[tuple[str, Any]]:
    for name, attribute in _META:
        value = getattr(meta, attribute)
        if value:
            yield name, dict(sorted(value.items())) if isinstance(value, Mapping) else value


@cache
def _attributes(kind: type) -> tuple[tuple[str, str], ...]:
    """Return internal names with the attributes that hold their values, in upstream's order."""
    by_name = {one.encode_name.lower(): one.name for one in msgspec.structs.fields(kind)}
    names = INTERNAL_FIELDS[kind.__name__].split()
    return tuple((name, "metadata" if name == "@" else by_name.get(name.lower()) or RENAMED[name]) for name in names)
