# SPDX-License-Identifier: Apache-2.0
"""create, update and patch."""

from __future__ import annotations

from typing import Any

from kubeloop.api import codec, errors
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.background.offload import is_expensive_body
from kubeloop.apiserver.decoding import check_media_type, decode_document, decode_object, decode_typed_body
from kubeloop.apiserver.handlers.apply import apply_config, read_config
from kubeloop.apiserver.handlers.partial_patch import apply_struct_patch, patch_parts
from kubeloop.apiserver.handlers.patch import (
    JSON_PATCH,
    STRATEGIC_MERGE_PATCH,
    apply_patch,
    decode_converted,
    parse_patch,
    patch_decode_errors,
)
from kubeloop.apiserver.registry.existing_object import ExistingObject
from kubeloop.apiserver.registry.storage import ResourceStorage
from kubeloop.apiserver.registry.store import ObjectStore, UpdateMode, WriteResult, check_namespace, ensure_namespace
from kubeloop.apiserver.request.context import InProcessRequest, RequestContext, has_typed_body
from kubeloop.apiserver.request.preconditions import check_preconditions
from kubeloop.apiserver.request.write_options import field_validation, validate_patch_options, validate_write_options
from kubeloop.apiserver.response.writers import ObjectResponse, object_response
from kubeloop.http import Response

APPLY = "application/apply-patch+yaml"
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    APPLY,
)
# Merge keys of strategic patches come from Go types.
_CUSTOM_PATCH_TYPES = (*PATCH_TYPES[:2], APPLY)


async def create_object(ctx: RequestContext, storage: ResourceStorage, mutations: ObjectStore) -> Response:
    """Handle POST to a collection."""
    if ctx.query and not ctx.resource.is_custom:
        check_media_type(ctx.request.headers.get("content-type", ""))  # its error precedes those of options
    validate_write_options(ctx.query, "CreateOptions")
    # The object is not decoded if it is cached, so that it cannot be logged.
    is_logged = ctx.audit is not None and ctx.audit.wants_request_object
    entry = None if is_logged else mutations.pod_create_cache.get_by_body(ctx)
    if entry is not None:
        return write_response(ctx, storage, await mutations.create_from_cache(ctx, entry))
    if is_expensive_body(ctx.request):
        obj = await mutations.worker_thread.run_for(ctx.request, read_body, ctx, ctx.resource)
    else:
        obj = read_body(ctx, ctx.resource)
    written = await mutations.create(ctx, obj)
    return write_response(ctx, storage, written)


def read_body(ctx: RequestContext, resource: Resource) -> Any:
    """Decode the object in a request's body, and record the decoder's warnings; run it by `WorkerThread.run_for`."""
    request = ctx.request
    if has_typed_body(ctx) and (obj := decode_typed_body(request.body, resource)) is not None:
        return obj
    decoded = decode_object(
        request.body, request.headers.get("content-type", ""), resource, field_validation(ctx.query)
    )
    for warning in decoded.warnings:
        ctx.warn(warning)
    if ctx.audit is not None:
        ctx.audit.log_request_object(decoded.obj)
    return decoded.obj


def write_response(ctx: RequestContext, storage: ResourceStorage, written: WriteResult) -> Response:
    """Return the response of a write: the object for an in-process caller that wants it, else its bytes."""
    if isinstance(ctx, InProcessRequest) and ctx.wants_object and written.key:
        return ObjectResponse(written)
    return object_response(ctx, storage, written.value, written.revision, 201 if written.created else 200)


async def replace_object(ctx: RequestContext, storage: ResourceStorage, mutations: ObjectStore) -> Response:
    """Handle PUT of an object, or of a subresource that serves the whole object."""
    validate_write_options(ctx.query, "UpdateOptions")
    obj = await mutations.worker_thread.run_for(ctx.request, read_body, ctx, ctx.resource)
    ensure_namespace(obj.metadata, ctx.target.namespace)
    check_name(ctx, obj.metadata.name)
    uid = obj.metadata.uid

    # Protobuf does not distinguish an empty list from none, so only text can reset managedFields.
    is_text = "protobuf" not in ctx.request.headers.get("content-type", "")
    ctx.resets_managed_fields = is_text and b'"managedFields"' in ctx.request.body and not obj.metadata.managed_fields

    unused = [obj]

    def produce(current: ExistingObject | None) -> Any:
        if current is not None and uid:
            check_preconditions(storage, current.record, current.form.stored.metadata, uid=uid)
        # The object is completed in place; a retry after a conflict starts again from what was sent.
        return unused.pop() if unused else read_body(ctx, ctx.resource)

    subresource = ctx.target.subresource
    may_create = storage.strategy.allow_create_on_update and not subresource
    written = await mutations.update(ctx, produce, UpdateMode(subresource, may_create, retry=True))
    return write_response(ctx, storage, written)


def check_name(ctx: RequestContext, name: str) -> None:
    """Raise BadRequest if the body names another object than the path."""
    if not name:
        raise errors.bad_request(
            f"the name of the object ({ctx.target.name} based on URL) was undeterminable: name must be provided"
        )
    if name != ctx.target.name:
        raise errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({ctx.target.name})"
        )


async def patch_object(ctx: RequestContext, storage: ResourceStorage, mutations: ObjectStore) -> Response:
    """Handle PATCH with any of the four patch types."""
    media = ctx.request.headers.get("content-type", "").partition(";")[0].strip()
    if ctx.resource.is_custom and media not in _CUSTOM_PATCH_TYPES:
        raise errors.unsupported_media_type(_CUSTOM_PATCH_TYPES)
    if media not in PATCH_TYPES:
        raise errors.generic_server_response(415, "415: Unsupported Media Type")
    validate_patch_options(ctx.query, media == APPLY)
    if ctx.audit is not None:
        ctx.audit.log_request_patch()
    if media == APPLY:
        return await _apply(ctx, storage, mutations)
    overlay = ctx.struct_patch if isinstance(ctx, InProcessRequest) else None
    sent = None
    if overlay is None:
        body = ctx.request.body
        long = is_expensive_body(ctx.request)
        sent = await mutations.worker_thread.run_for(ctx.request, parse_patch, body) if long else parse_patch(body)
    mode = field_validation(ctx.query)

    speaks_of_managers = b"managedFields" in ctx.request.body

    def produce(current: ExistingObject | None) -> Any:
        assert current is not None  # a plain patch creates nothing
        if overlay is not None and (laid := apply_struct_patch(overlay, current, ctx)) is not None:
            return laid
        patch = sent if overlay is None else codec.to_plain(overlay.document)
        if not speaks_of_managers:
            parts = patch_parts(media, patch, current, ctx, storage.strategy)
            if parts is not None:
                check_namespace(parts.metadata.namespace, ctx.target.namespace)
                check_name(ctx, parts.metadata.name)
                _default_uid(parts.metadata, current.form.served.metadata.uid)
                return parts
        owned = current.use_owned()
        live = owned.plain_with_managed_fields if speaks_of_managers else owned.plain
        patched = apply_patch(media, live, patch, ctx.resource)

        def result() -> dict[str, Any]:
            return apply_patch(media, owned.plain_with_managed_fields, patch, ctx.resource)

        with patch_decode_errors(media, patch, result):
            if media == STRATEGIC_MERGE_PATCH:
                decoded = decode_converted(patched, ctx.resource, mode, patch)
            else:
                changed_by = None if media == JSON_PATCH else patch
                decoded = decode_document(patched, ctx.resource, mode, changed_by=changed_by)
        for warning in decoded.warnings:
            ctx.warn(warning)
        ctx.resets_managed_fields = speaks_of_managers and not decoded.obj.metadata.managed_fields
        # Upstream takes an object without a version for its internal type, which has no field `metadata`.
        has_version = bool(patched.get("apiVersion")) or ctx.resource.is_custom
        if has_version:
            check_namespace(decoded.obj.metadata.namespace, ctx.target.namespace)
        check_name(ctx, decoded.obj.metadata.name if has_version else "")
        _default_uid(decoded.obj.metadata, live["metadata"]["uid"])
        return decoded.obj

    written = await mutations.update(ctx, produce, UpdateMode(ctx.target.subresource, retry=True))
    return write_response(ctx, storage, written)


def _default_uid(meta: Any, uid: str) -> None:
    """Set a missing uid; validation rejects another one, together with all other errors."""
    if not meta.uid:
        codec.force_setattr(meta, "uid", uid)


async def _apply(ctx: RequestContext, storage: ResourceStorage, mutations: ObjectStore) -> Response:
    subresource = ctx.target.subresource
    mode = UpdateMode(subresource, may_create=not subresource, tracked=False, retry=True)
    config = await mutations.worker_thread.run_for(ctx.request, read_config, ctx)
    written = await mutations.update(ctx, apply_config(ctx, storage, config), mode)
    return write_response(ctx, storage, written)
