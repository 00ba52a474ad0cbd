# SPDX-License-Identifier: Apache-2.0
"""Field manager: attributes the fields of each write to its manager in managedFields."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.apply.change import ManagedWrite
from kubeloop.api.apply.field_filters import FieldFilter, exclude_fields, include_fields
from kubeloop.api.apply.fields.field_owners import update_field_owners
from kubeloop.api.apply.shape import InvalidListItem, shape_of
from kubeloop.api.apply.validate import iter_schema_errors
from kubeloop.api.generated.meta_v1 import ManagedFieldsEntry, ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Time
from kubeloop.api.schema import SchemaNode
from kubeloop.api.strategy import Strategy
from kubeloop.apiserver.registry.create_signature import create_signature
from kubeloop.apiserver.registry.existing_object import ExistingObject, plain_entry
from kubeloop.apiserver.registry.versions import conversion_of
from kubeloop.apiserver.request.context import RequestContext

_MAX_NAME = 128
_DEEPEST_PLAIN = 3
_MAX_CREATE_FIELDS = 1024
_UNKNOWN = msgspec.Raw()


def manager_of(ctx: RequestContext) -> str:
    """Return the request's fieldManager, else the part of the user agent before the slash."""
    named = ctx.query.text("fieldManager")
    if named:
        return named
    return manager_by_agent(ctx.request.headers.get("user-agent", ""))


@lru_cache(maxsize=1024)
def manager_by_agent(agent: str) -> str:
    """Return the manager of a request without fieldManager."""
    name = agent.partition("/")[0]
    return "".join(char for char in name[:_MAX_NAME] if char.isprintable()) or "unknown"


def settable_fields_of(strategy: Strategy, subresource: str) -> FieldFilter | None:
    """Return the fields that a write to a subresource can set; None if it can set all."""
    if only := strategy.settable_fields.get(subresource):
        return _only_fields(only)
    others = strategy.reset_fields.get(subresource)
    return _all_fields_except(others) if others else None


_only_fields = cache(lambda paths: include_fields(*paths))
_all_fields_except = cache(lambda paths: exclude_fields(*paths))


def set_entries(
    obj: Any, entries: list[dict[str, Any]], known: Mapping[int, ManagedFieldsEntry] = MappingProxyType({})
) -> None:
    """Set managedFields from plain entries; `known` maps the identities of unchanged entries to their structs."""
    found = tuple([known.get(id(plain)) or _entry(plain) for plain in entries])
    codec.force_setattr(obj.metadata, "managed_fields", found)


@lru_cache(maxsize=1024)
def _raw(text: bytes) -> msgspec.Raw:
    """Return the encoded field set; equal objects share one instance."""
    return msgspec.Raw(text)


def _entry(plain: dict[str, Any]) -> ManagedFieldsEntry:
    return ManagedFieldsEntry(
        manager=plain["manager"],
        operation=plain["operation"],
        api_version=plain["apiVersion"],
        time=Time(plain["time"]) if "time" in plain else None,
        fields_type=plain["fieldsType"],
        fields_v1=_raw(msgspec.json.encode(plain["fieldsV1"])),
        subresource=plain.get("subresource", ""),
    )


class _CreateFieldsCache:
    """Cache of the fields owned by creators, by a digest of the new object: pods of one template share an entry.

    Invariant: an entry is a pure function of its key, and is never changed. It belongs to one server, whose custom
    resources have schemas of their own. The worker thread uses it, too: it gets and sets whole entries, and an entry
    that another thread overwrites or clears is computed again.
    """

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._cache: dict[tuple[Resource, str, object], msgspec.Raw | None] = {}

    def owned_fields(
        self, obj: Any, resource: Resource, manager: str, settable: FieldFilter | None
    ) -> msgspec.Raw | None:
        """Return the fields of a new object that its creator owns; None if there are none."""
        key = (resource, manager, _cache_key(obj, resource))
        fields = self._cache.get(key, _UNKNOWN)
        if fields is _UNKNOWN:
            fields = _compute_fields(obj, resource, manager, settable)
            if len(self._cache) >= self._max_entries:
                self._cache.clear()
            self._cache[key] = fields
        return fields


def _compute_fields(obj: Any, resource: Resource, manager: str, settable: FieldFilter | None) -> msgspec.Raw | None:
    plain = codec.to_plain(obj)
    if not _has_schema_types(plain, resource):
        return None
    write = ManagedWrite(
        resource.kind, resource.group_version, resource.schema_node, manager, now="", settable=settable
    )
    entries = update_field_owners(None, plain, write, [])
    return msgspec.Raw(msgspec.json.encode(entries[0]["fieldsV1"])) if entries else None


def _has_schema_types(plain: dict[str, Any], resource: Resource) -> bool:
    """Return True if all values have the types of their schema: else upstream cannot tell which fields are owned.

    Built-in kinds are decoded into structs. A custom object is validated later, and its status may be dropped.
    """
    if not resource.is_custom:
        return True
    found = iter_schema_errors(plain, shape_of(resource.schema_node))
    return all(one.message.startswith("duplicate entries") for one in found)


def _cache_key(obj: Any, resource: Resource) -> object:
    """Return a cache key that is equal for objects with equal field sets, as cheap to compute as possible."""
    meta = obj.metadata
    if (
        not resource.is_custom
        and _has_fixed_schema(resource)
        and not (meta.labels or meta.annotations or meta.finalizers or meta.owner_references)
    ):
        return bool(meta.generate_name), *_outline(obj)
    return hashlib.blake2b(create_signature(obj), digest_size=32).digest()


def _outline(part: msgspec.Struct) -> tuple[object, ...]:
    """Return for each field of a struct if it is set and non-empty; metadata is left out."""
    return tuple(
        [
            (_outline(value) if type(value) is not ObjectMeta else ()) if isinstance(value, msgspec.Struct)
            else None if value is None else bool(value)
            for value in msgspec.structs.astuple(part)
        ]
    )  # fmt: skip


@cache
def _has_fixed_schema(resource: Resource) -> bool:
    """Return True if a built-in kind has neither lists nor maps outside of metadata, as Event."""
    return all(_has_fixed_names(node) for name, node in resource.schema_node.fields.items() if name != "metadata")


def _has_fixed_names(node: SchemaNode, depth: int = 0) -> bool:
    if node.is_struct:
        return depth < _DEEPEST_PLAIN and all(_has_fixed_names(one, depth + 1) for one in node.fields.values())
    return node.type not in ("array", "object", "any")


class ManagedFieldsUpdater:
    """Updates managedFields for the writes of one server."""

    def __init__(self) -> None:
        self._create_fields = _CreateFieldsCache(_MAX_CREATE_FIELDS)

    def create(
        self, obj: Any, resource: Resource, ctx: RequestContext, settable: FieldFilter | None, use_cache: bool = True
    ) -> None:
        """Attribute the fields of a new object to the request's manager.

        The cache is not used for an object that is cached as a whole.
        """
        try:
            if not obj.metadata.managed_fields:
                manager = manager_of(ctx)
                owned_fields = self._create_fields.owned_fields if use_cache else _compute_fields
                _set_creator(obj, resource, ctx, owned_fields(obj, resource, manager, settable))
                return
            write = _write_of(resource, ctx, ctx.target.subresource, settable)
            plain = _plain_with_entries(obj, codec.to_plain(obj), ctx)
            typed = _has_schema_types(plain, resource)
            set_entries(obj, update_field_owners(None, plain, write, []) if typed else [])
        except InvalidListItem:
            codec.force_setattr(obj.metadata, "managed_fields", ())

    def update(
        self,
        obj: Any,
        current: ExistingObject,
        ctx: RequestContext,
        subresource: str,
        settable: FieldFilter | None,
    ) -> None:
        """Update managedFields: attribute the changes from the existing to the new object to the request's manager.

        An object with a list item that lacks its keys keeps its owners, as upstream can't tell its items apart. So
        does one whose values do not have the types of its schema.
        """
        try:
            write = _write_of(current.storage.resource, ctx, subresource, settable)
            new_plain = _plain_with_entries(obj, current.diff_target(obj), ctx)
            if not _has_schema_types(new_plain, current.storage.resource):
                codec.force_setattr(obj.metadata, "managed_fields", current.form.served.metadata.managed_fields)
                return
            entries = update_field_owners(current.diff_base, new_plain, write, current.form.managed_fields)
            set_entries(obj, entries, current.form.managed_fields_by_id)
        except InvalidListItem:
            codec.force_setattr(obj.metadata, "managed_fields", current.form.served.metadata.managed_fields)


def _set_creator(obj: Any, resource: Resource, ctx: RequestContext, fields: msgspec.Raw | None) -> None:
    """Set managedFields of a new object to one entry, or to none without owned fields."""
    if fields is None:
        codec.force_setattr(obj.metadata, "managed_fields", ())
        return
    entry = ManagedFieldsEntry(
        manager=manager_of(ctx),
        operation="Update",
        api_version=resource.group_version,
        time=Time(format_time(ctx.now)),
        fields_type="FieldsV1",
        fields_v1=fields,
    )
    codec.force_setattr(obj.metadata, "managed_fields", (entry,))


def _plain_with_entries(obj: Any, plain: dict[str, Any], ctx: RequestContext) -> dict[str, Any]:
    """Return the plain form of an object with the managedFields that the client sent."""
    meta = plain["metadata"] = {**plain["metadata"]}
    given = [plain_entry(entry) for entry in obj.metadata.managed_fields]
    meta.pop("managedFields", None)
    if given or ctx.resets_managed_fields:
        meta["managedFields"] = given
    return plain


def _write_of(resource: Resource, ctx: RequestContext, subresource: str, settable: FieldFilter | None) -> ManagedWrite:
    return ManagedWrite(
        resource.kind,
        resource.group_version,
        resource.schema_node,
        manager_of(ctx),
        format_time(ctx.now),
        subresource,
        settable,
        conversion_of(resource),
    )
