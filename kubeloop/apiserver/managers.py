"""Who a write is attributed to in managedFields, and keeping managedFields true on every write."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.apply.ownership import track_update
from kubeloop.api.generated.meta_v1 import ManagedFieldsEntry
from kubeloop.api.kinds import Resource
from kubeloop.api.schema import node_of
from kubeloop.api.strategy import Strategy
from kubeloop.api.times import format_time
from kubeloop.apiserver.context import Context

_ENTRIES = msgspec.json.Decoder(tuple[ManagedFieldsEntry, ...], dec_hook=codec.decode_hook)
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
    """What a write to a subresource can't set, as a tree of fields; None when it can set everything."""
    tree: dict[str, Any] = {}
    for path in strategy.reset_fields.get(subresource, ()):
        level = tree
        for name in path:
            level = level.setdefault(f"f:{name}", {})
    return tree or None


def set_entries(obj: Any, entries: list[dict[str, Any]]) -> None:
    codec.force_setattr(obj.metadata, "managed_fields", _ENTRIES.decode(msgspec.json.encode(entries)))


def track(
    obj: Any, old_plain: dict[str, Any] | None, resource: Resource, ctx: Context, subresource: str, reset: Any
) -> None:
    """Attribute what differs between the old and the new object to this request's manager."""
    new_plain = codec.to_plain(obj)
    given = new_plain["metadata"].pop("managedFields", [])
    known = given or ([] if old_plain is None else old_plain["metadata"].get("managedFields", []))
    entries = track_update(
        old_plain,
        new_plain,
        node_of(resource.definition),
        manager_of(ctx),
        resource.group_version,
        subresource,
        format_time(ctx.now),
        known,
        reset,
    )
    set_entries(obj, entries)
