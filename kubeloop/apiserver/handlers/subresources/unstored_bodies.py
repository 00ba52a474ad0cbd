# SPDX-License-Identifier: Apache-2.0
"""Bodies of reviews and token requests, which are answered without being stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubeloop.api.kinds import Resource
from kubeloop.apiserver.handlers.write import read_body
from kubeloop.apiserver.registry.store import ensure_namespace
from kubeloop.apiserver.request.context import RequestContext

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer


async def read_unstored(ctx: RequestContext, server: ApiServer, resource: Resource) -> Any:
    """Decode the object in a request's body and set its namespace and managedFields."""
    return await server.worker_thread.run_for(ctx.request, _read, ctx, server, resource)


def _read(ctx: RequestContext, server: ApiServer, resource: Resource) -> Any:
    obj = read_body(ctx, resource)
    ensure_namespace(obj.metadata, ctx.target.namespace)
    server.object_store.managed_fields.create(obj, resource, ctx, None)
    return obj
