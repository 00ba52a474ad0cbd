"""Who a write is attributed to in managedFields, and keeping managedFields true on every write."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.apply.fieldset import of
from kubeloop.api.apply.ownership import track_update
from kubeloop.api.generated.meta_v1 import ManagedFieldsEntry
from kubeloop.api.kinds import Resource
from kubeloop.api.schema import node_of
from kubeloop.api.strategy import Strategy
from kubeloop.api.times import format_time
from kubeloop.api.wire import Time
from kubeloop.apiserver.context import Context
from kubeloop.apiserver.current import Current, plain_entry

_MAX_NAME = 128


def manager_of(ctx: Context) -> str:
    """The named field manager, else what comes before the slash in the user agent."""
    named = ctx.query.text("fieldManager")
    if named:
        return named
    agent = ctx.request.headers.get("user-agent", "").partition("/")[0]
    printable = "".join(char for char in agent[:_MAX_NAME] if char.isprintable())
    return printable or "unknown"


def reset_tree(strategy: Strategy, subresource: str) -> dict[str, Any] | None:
    """What a write to a subresource can't set, as a set of fields; None when it can set everything."""
    paths = strategy.reset_fields.get(subresource)
    return _tree_of(paths) if paths else None


@cache
def _tree_of(paths: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    return of(*paths)


def set_entries(obj: Any, entries: list[dict[str, Any]]) -> None:
    """Write plain entries into an object's metadata."""
    codec.force_setattr(obj.metadata, "managed_fields", tuple(map(_entry, entries)))


def _entry(plain: dict[str, Any]) -> ManagedFieldsEntry:
    return ManagedFieldsEntry(
        manager=plain["manager"],
        operation=plain["operation"],
        api_version=plain["apiVersion"],
        time=Time(plain["time"]) if "time" in plain else None,
        fields_type=plain["fieldsType"],
        fields_v1=msgspec.Raw(msgspec.json.encode(plain["fieldsV1"])),
        subresource=plain.get("subresource", ""),
    )


def track(obj: Any, current: Current | None, resource: Resource, ctx: Context, subresource: str, reset: Any) -> None:
    """Attribute what differs between the present and the new object to this request's manager."""
    new_plain = codec.to_plain(obj) if current is None else current.plain_of(obj)
    meta = new_plain["metadata"] = {**new_plain["metadata"]}
    given = [plain_entry(entry) for entry in obj.metadata.managed_fields]
    meta.pop("managedFields", None)
    if given or ctx.forgets_managers:
        meta["managedFields"] = given
    entries = track_update(
        None if current is None else current.plain,
        new_plain,
        node_of(resource.definition),
        manager_of(ctx),
        resource.group_version,
        subresource,
        format_time(ctx.now),
        [] if current is None else current.entries,
        reset,
    )
    set_entries(obj, entries)
