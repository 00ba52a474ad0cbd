# SPDX-License-Identifier: Apache-2.0
"""scale: reads and writes the replica count of a workload.

stored object ─▶ its Scale ─▶ replaced, patched or applied ─▶ replicas and managedFields back into the object
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kubeloop.api import codec, errors
from kubeloop.api.apply.change import ManagedWrite
from kubeloop.api.apply.fields.field_owners import update_field_owners
from kubeloop.api.apply.fields.fieldset import difference, field_set
from kubeloop.api.apply.fields.managed_fields_entries import (
    ManagedFieldsEntry,
    manager_identifier,
    sort_entries,
    with_fields,
)
from kubeloop.api.apply.server_side import apply
from kubeloop.api.generated.autoscaling_v1 import Scale, ScaleSpec, ScaleStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.api.meta import field_path
from kubeloop.api.meta.field_path import FieldPath
from kubeloop.api.scalars.times import format_time
from kubeloop.api.schema import node_of
from kubeloop.api.selectors import label_selector_as_selector, selector_from_set
from kubeloop.api.structural.instance import CustomResourceObject
from kubeloop.apiserver.apiextensions.scale import (
    replicas_path,
    require_replicas,
    scale_of_instance,
    set_replicas,
)
from kubeloop.apiserver.decoding import decode_document
from kubeloop.apiserver.handlers.apply import read_config, report_duplicate_keys
from kubeloop.apiserver.handlers.patch import apply_patch, parse_patch, patch_decode_errors
from kubeloop.apiserver.handlers.subresources.unstored_responses import unstored_object_response
from kubeloop.apiserver.handlers.write import APPLY, PATCH_TYPES, check_name, read_body
from kubeloop.apiserver.registry.existing_object import ExistingObject
from kubeloop.apiserver.registry.field_manager import manager_of, set_entries
from kubeloop.apiserver.registry.storage import ResourceStorage
from kubeloop.apiserver.registry.store import UpdateMode, ensure_namespace
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.request.preconditions import check_preconditions
from kubeloop.apiserver.request.write_options import field_validation, validate_patch_options, validate_write_options
from kubeloop.http import Response

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer

SCALE = Resource("autoscaling", "v1", "scales", "Scale")
# Maps the current Scale and its managedFields to the new ones.
_Change = Callable[[dict[str, Any], list[ManagedFieldsEntry]], tuple[Scale, list[ManagedFieldsEntry]]]
# Built-in kinds have the same path as the Scale; custom resources configure it.
REPLICAS = ("spec", "replicas")


async def scale(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle GET, PUT or PATCH of a workload's scale."""
    storage = server.registry.storage_of(ctx.resource)
    if ctx.target.verb == "get":
        record = storage.get(ctx.target.namespace, ctx.target.name)
        if record is None:
            raise errors.not_found(ctx.resource.group, ctx.resource.plural, ctx.target.name)
        parent = storage.serializer.decode_record(record)
        if isinstance(parent, CustomResourceObject):
            require_replicas(parent)
        return unstored_object_response(ctx, SCALE, scale_of(parent))
    patching = ctx.target.verb == "patch"
    change = await server.worker_thread.run_for(ctx.request, _patch if patching else _replace, ctx)
    written = await server.object_store.update(
        ctx, _produce(ctx, storage, change), UpdateMode("scale", tracked=False, retry=patching)
    )
    return unstored_object_response(ctx, SCALE, scale_of(storage.serializer.decode(written.value, written.revision)))


def scale_of(parent: Any) -> Scale:
    """Return the Scale of a workload."""
    if isinstance(parent, CustomResourceObject):
        return scale_of_instance(parent)
    selector = parent.spec.selector
    # A replication controller selects by plain labels, everything else by a selector object.
    chosen = (
        selector_from_set(selector) if parent.kind == "ReplicationController" else label_selector_as_selector(selector)
    )
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


def _produce(ctx: RequestContext, storage: ResourceStorage, change: _Change) -> Callable[[ExistingObject | None], Any]:
    def produce(current: ExistingObject | None) -> Any:
        assert current is not None  # a scale write creates nothing
        parent = storage.serializer.decode_record(current.record)
        entries = current.form.managed_fields
        replicas = replicas_path(parent) if isinstance(parent, CustomResourceObject) else REPLICAS
        wanted, owners = change(codec.to_plain(scale_of(parent)), entries_for_scale(entries, replicas))
        if ctx.target.verb == "update":
            check_preconditions(storage, current.record, parent.metadata, uid=wanted.metadata.uid)
        if isinstance(parent, CustomResourceObject):
            set_replicas(parent, wanted.spec.replicas)
        else:
            _check(wanted, parent.metadata.name)
            codec.force_setattr(parent.spec, "replicas", wanted.spec.replicas)
        if wanted.metadata.resource_version or not isinstance(parent, CustomResourceObject):
            codec.force_setattr(parent.metadata, "resource_version", wanted.metadata.resource_version)
        set_entries(parent, entries_for_parent(entries, owners, ctx.resource.group_version, replicas))
        return parent

    return produce


def _check(wanted: Scale, name: str) -> None:
    replicas = wanted.spec.replicas
    if replicas < 0:
        wrong = field_path.invalid(FieldPath("spec").child("replicas"), replicas, "must be greater than or equal to 0")
        raise errors.invalid(SCALE.group, SCALE.kind, name, [wrong])


def _replace(ctx: RequestContext) -> _Change:
    validate_write_options(ctx.query, "UpdateOptions")
    wanted: Scale = read_body(ctx, SCALE)
    ensure_namespace(wanted.metadata, ctx.target.namespace)
    check_name(ctx, wanted.metadata.name)
    return lambda live, entries: (wanted, _update_managed_fields(ctx, live, wanted, entries))


def _patch(ctx: RequestContext) -> _Change:
    media = ctx.request.headers.get("content-type", "").partition(";")[0].strip()
    if media not in PATCH_TYPES[:4]:
        raise errors.unsupported_media_type(PATCH_TYPES)
    validate_patch_options(ctx.query, media == APPLY)
    if ctx.audit is not None:
        ctx.audit.log_request_patch()
    if media == APPLY:
        return _apply(ctx)
    patch = parse_patch(ctx.request.body)
    mode = field_validation(ctx.query)

    def change(live: dict[str, Any], entries: list[ManagedFieldsEntry]) -> tuple[Scale, list[ManagedFieldsEntry]]:
        patched = apply_patch(media, live, patch, SCALE)
        with patch_decode_errors(media, patch, lambda: patched):
            decoded = decode_document(patched, SCALE, mode)
        for warning in decoded.warnings:
            ctx.warn(warning)
        check_name(ctx, decoded.obj.metadata.name)
        return decoded.obj, _update_managed_fields(ctx, live, decoded.obj, entries)

    return change


def _apply(ctx: RequestContext) -> _Change:
    config, repeated = read_config(ctx)

    def change(live: dict[str, Any], entries: list[ManagedFieldsEntry]) -> tuple[Scale, list[ManagedFieldsEntry]]:
        write = _managed_write(ctx, ctx.query.text("fieldManager"))
        outcome = apply(live, config, write, entries, force=ctx.query.flag("force"))
        report_duplicate_keys(ctx, repeated)
        wanted = decode_document(outcome.obj, SCALE, "Ignore").obj
        check_name(ctx, wanted.metadata.name)
        return wanted, outcome.entries

    return change


def _update_managed_fields(
    ctx: RequestContext, live: dict[str, Any], wanted: Scale, entries: list[ManagedFieldsEntry]
) -> list[ManagedFieldsEntry]:
    """Return the scale's managedFields after this request."""
    return update_field_owners(live, codec.to_plain(wanted), _managed_write(ctx, manager_of(ctx)), entries)


def _managed_write(ctx: RequestContext, manager: str) -> ManagedWrite:
    node = node_of(SCALE.definition)
    return ManagedWrite(SCALE.kind, SCALE.group_version, node, manager, format_time(ctx.now), "scale")


def entries_for_scale(
    parent: Sequence[ManagedFieldsEntry], replicas: tuple[str, ...] = REPLICAS
) -> list[ManagedFieldsEntry]:
    """Return the scaled object's entries that own its replicas, reduced to that field: a Scale manages no other."""
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
