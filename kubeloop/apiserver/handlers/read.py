# SPDX-License-Identifier: Apache-2.0
"""get and list."""

from __future__ import annotations

from kubeloop.api import errors
from kubeloop.apiserver.handlers.list_objects import list_page
from kubeloop.apiserver.registry.storage import ResourceStorage
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.request.list_options import ListOptions, parse_revision
from kubeloop.apiserver.response.writers import list_response, object_response
from kubeloop.http import Response


def get_object(ctx: RequestContext, storage: ResourceStorage) -> Response:
    """Handle GET of one object."""
    target = ctx.target
    if "resourceVersion" in ctx.query:
        try:
            asked = parse_revision(ctx.query.text("resourceVersion"))
        except ValueError as error:
            raise errors.ApiError(str(error)) from None
        if asked > storage.store.revision:
            raise errors.too_large_resource_version(asked, storage.store.revision, 1)
    if "export" in ctx.query:
        raise errors.bad_request("the export parameter, deprecated since v1.14, is no longer supported")
    record = storage.get(target.namespace, target.name)
    if record is None:
        raise errors.not_found(target.resource.group, target.resource.plural, target.name)
    return object_response(ctx, storage, record.value, record.mod_revision)


async def list_objects(ctx: RequestContext, storage: ResourceStorage, options: ListOptions) -> Response:
    """Handle GET of a collection: return one page."""
    prefix = storage.prefix(namespace_to_read(ctx, options))
    return list_response(ctx, storage, await list_page(storage.store, prefix, options, storage.lists))


def namespace_to_read(ctx: RequestContext, options: ListOptions) -> str:
    """Return the namespace to read: the path's, or the one that the field selector requires."""
    if ctx.target.namespace or not ctx.resource.namespaced:
        return ctx.target.namespace
    return options.selector.namespace or ""
