"""scale: reads and writes the replica count of a workload.

stored object ─▶ its Scale ─▶ replaced, patched or applied ─▶ replicas and managedFields back into the object
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kubeloop.api import codec, errors
from kubeloop.api.apply.fields.field_owners import track_update
from kubeloop.api.apply.fields.managed_fields_entries import Entry
from kubeloop.api.apply.server_side import apply
from kubeloop.api.generated.autoscaling_v1 import Scale, ScaleSpec, ScaleStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.api.meta import field_path
from kubeloop.api.meta.field_path import Path
from kubeloop.api.scalars.times import format_time
from kubeloop.api.schema import node_of
from kubeloop.api.selectors import from_label_selector, from_labels
from kubeloop.api.structural.instance import Instance
from kubeloop.apiserver.apiextensions.scale import (
    demand_replicas,
    replicas_path,
    scale_of_instance,
    set_replicas,
)
from kubeloop.apiserver.decoding import decode_document
from kubeloop.apiserver.handlers.apply import read_config, tell_of_repeats
from kubeloop.apiserver.handlers.patch import apply_patch, patch_of, refuse_produced
from kubeloop.apiserver.handlers.subresources.answers import made_up_object
from kubeloop.apiserver.handlers.subresources.scale_ownership import REPLICAS, entries_for_parent, entries_for_scale
from kubeloop.apiserver.handlers.write import APPLY, PATCH_TYPES, check_name, read_body
from kubeloop.apiserver.registry.existing import Current
from kubeloop.apiserver.registry.field_manager import manager_of, set_entries
from kubeloop.apiserver.registry.storage import Storage
from kubeloop.apiserver.registry.store import ensure_namespace
from kubeloop.apiserver.request.context import Context
from kubeloop.apiserver.request.preconditions import demand
from kubeloop.apiserver.request.write_options import check_patch_options, check_write_options, field_validation
from kubeloop.http import Response

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer

SCALE = Resource("autoscaling", "v1", "scales", "Scale")
# Maps the current Scale and its managedFields to the new ones.
_Change = Callable[[dict[str, Any], list[Entry]], tuple[Scale, list[Entry]]]


async def scale(ctx: Context, server: ApiServer) -> Response:
    """Handle GET, PUT or PATCH of a workload's scale."""
    storage = server.registry.of(ctx.resource)
    if ctx.target.verb == "get":
        record = storage.get(ctx.target.namespace, ctx.target.name)
        if record is None:
            raise errors.not_found(ctx.resource.group, ctx.resource.plural, ctx.target.name)
        parent = storage.view.decode_record(record)
        if isinstance(parent, Instance):
            demand_replicas(parent)
        return made_up_object(ctx, SCALE, scale_of(parent))
    patching = ctx.target.verb == "patch"
    change = _patched(ctx) if patching else _replaced(ctx)
    written = await server.mutations.update(
        ctx, _produce(ctx, storage, change), subresource="scale", tracked=False, retry=patching
    )
    return made_up_object(ctx, SCALE, scale_of(storage.view.decode(written.value, written.revision)))


def scale_of(parent: Any) -> Scale:
    """Return the Scale of a workload."""
    if isinstance(parent, Instance):
        return scale_of_instance(parent)
    selector = parent.spec.selector
    # A replication controller selects by plain labels, everything else by a selector object.
    chosen = from_labels(selector) if parent.kind == "ReplicationController" else from_label_selector(selector)
    return Scale(
        metadata=ObjectMeta(
            name=parent.metadata.name,
            namespace=parent.metadata.namespace,
            uid=parent.metadata.uid,
            resource_version=parent.metadata.resource_version,
            creation_timestamp=parent.metadata.creation_timestamp,
        ),
        spec=ScaleSpec(replicas=parent.spec.replicas or 0),
        status=ScaleStatus(replicas=parent.status.replicas, selector=str(chosen)),
    )


def _produce(ctx: Context, storage: Storage, change: _Change) -> Callable[[Current | None], Any]:
    def produce(current: Current | None) -> Any:
        assert current is not None  # a scale write creates nothing
        parent = storage.view.decode_record(current.record)
        entries = current.entries
        replicas = replicas_path(parent) if isinstance(parent, Instance) else REPLICAS
        wanted, owners = change(codec.to_plain(scale_of(parent)), entries_for_scale(entries, replicas))
        if ctx.target.verb == "update":
            demand(storage, current.record, parent.metadata, uid=wanted.metadata.uid)
        if isinstance(parent, Instance):
            set_replicas(parent, wanted.spec.replicas)
        else:
            _check(wanted, parent.metadata.name)
            codec.force_setattr(parent.spec, "replicas", wanted.spec.replicas)
        if wanted.metadata.resource_version or not isinstance(parent, Instance):
            codec.force_setattr(parent.metadata, "resource_version", wanted.metadata.resource_version)
        set_entries(parent, entries_for_parent(entries, owners, ctx.resource.group_version, replicas))
        return parent

    return produce


def _check(wanted: Scale, name: str) -> None:
    replicas = wanted.spec.replicas
    if replicas < 0:
        wrong = field_path.invalid(Path("spec").child("replicas"), replicas, "must be greater than or equal to 0")
        raise errors.invalid(SCALE.group, SCALE.kind, name, [wrong])


def _replaced(ctx: Context) -> _Change:
    check_write_options(ctx.query, "UpdateOptions")
    wanted: Scale = read_body(ctx, SCALE)
    ensure_namespace(wanted.metadata, ctx.target.namespace)
    check_name(ctx, wanted.metadata.name)
    return lambda live, entries: (wanted, _tracked(ctx, live, wanted, entries))


def _patched(ctx: Context) -> _Change:
    media = ctx.request.headers.get("content-type", "").partition(";")[0].strip()
    if media not in PATCH_TYPES[:4]:
        raise errors.unsupported_media_type(PATCH_TYPES)
    check_patch_options(ctx.query, media == APPLY)
    if media == APPLY:
        return _applied(ctx)
    patch = patch_of(ctx.request.body, media)
    mode = field_validation(ctx.query)

    def change(live: dict[str, Any], entries: list[Entry]) -> tuple[Scale, list[Entry]]:
        patched = apply_patch(media, live, patch, SCALE)
        with refuse_produced(media, patch, patched):
            decoded = decode_document(patched, SCALE, mode)
        for warning in decoded.warnings:
            ctx.warn(warning)
        check_name(ctx, decoded.obj.metadata.name)
        return decoded.obj, _tracked(ctx, live, decoded.obj, entries)

    return change


def _applied(ctx: Context) -> _Change:
    config, repeated = read_config(ctx)

    def change(live: dict[str, Any], entries: list[Entry]) -> tuple[Scale, list[Entry]]:
        outcome = apply(
            live,
            config,
            node_of(SCALE.definition),
            SCALE.kind,
            ctx.query.text("fieldManager"),
            SCALE.group_version,
            "scale",
            ctx.query.flag("force"),
            format_time(ctx.now),
            entries,
        )
        tell_of_repeats(ctx, repeated)
        wanted = decode_document(outcome.obj, SCALE, "Ignore").obj
        check_name(ctx, wanted.metadata.name)
        return wanted, outcome.entries

    return change


def _tracked(ctx: Context, live: dict[str, Any], wanted: Scale, entries: list[Entry]) -> list[Entry]:
    """Return the scale's managedFields after this request."""
    return track_update(
        live,
        codec.to_plain(wanted),
        node_of(SCALE.definition),
        manager_of(ctx),
        SCALE.group_version,
        "scale",
        format_time(ctx.now),
        entries,
    )
