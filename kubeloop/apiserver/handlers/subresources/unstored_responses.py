# SPDX-License-Identifier: Apache-2.0
"""Responses with objects that are not stored, and Status success responses."""

from __future__ import annotations

from typing import Any

from kubeloop.api import codec, errors
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.registry.serializer import partial_head
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.response.writers import document_response, included_object, internal_package
from kubeloop.http import Response

_CREATED = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


def success_response(ctx: RequestContext) -> Response:
    """Return the 201 Status response of a POST that creates no object of its own."""
    return document_response(ctx, _CREATED, 201)


def unstored_object_response(ctx: RequestContext, resource: Resource, obj: Any, status: int = 200) -> Response:
    """Return one unstored object in the negotiated format."""
    form = ctx.format
    if not form.convert:
        return document_response(ctx, codec.encode(obj), status)
    if form.convert == "PartialObjectMetadata":
        return document_response(ctx, partial_head(form.meta_version) + codec.encode(obj.metadata) + b"}", status)
    if form.convert == "Table":
        meta = {"resourceVersion": obj.metadata.resource_version} if obj.metadata.resource_version else {}
        return document_response(ctx, encode_unstored_table(ctx, resource, [obj], meta, is_list=False), status)
    package = internal_package(resource)
    raise errors.NotAcceptable(
        f"you requested {form.convert}, but the requested object is not a list (*{package}.{resource.kind})"
    )


def encode_unstored_table(
    ctx: RequestContext, resource: Resource, objects: list[Any], meta: dict[str, Any], *, is_list: bool
) -> bytes:
    """Return unstored objects as an encoded Table."""
    from kubeloop.apiserver.response.tables import TableOptions, render_table

    include = included_object(ctx)
    rows = (
        (
            obj,
            codec.encode(obj.metadata) if include == "Metadata" else None,
            codec.encode(obj) if include == "Object" else None,
        )
        for obj in objects
    )
    options = TableOptions(include, is_list, version=ctx.format.meta_version)
    return render_table(resource, rows, meta, ctx.now, options)
