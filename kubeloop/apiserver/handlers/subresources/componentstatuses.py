"""componentstatuses: health of the control plane's components. Deprecated, but still used by people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kubeloop.api import codec, errors
from kubeloop.api.generated.core_v1 import ComponentCondition, ComponentStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.apiserver.handlers.subresources.answers import encode_unstored_table, unstored_object_response
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.response.writers import document_response
from kubeloop.http import Response

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer

_DEPRECATED = "v1 ComponentStatus is deprecated in v1.19+"
# The store is healthy as the server is running; the others have upstream's ports on the same machine.
_PORTS = {"controller-manager": 10257, "scheduler": 10259}
_NAMES = ("controller-manager", "etcd-0", "scheduler")


async def component_statuses(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle GET of one component, or of the list of all."""
    ctx.warn(_DEPRECATED)
    if ctx.target.verb == "get":
        if ctx.target.name not in _NAMES:
            raise errors.not_found("", "componentstatus", ctx.target.name)
        return unstored_object_response(ctx, ctx.resource, component_status_of(ctx.target.name))
    if ctx.target.verb != "list":
        raise errors.generic_server_response(405)
    return _list(ctx, [component_status_of(name) for name in _NAMES])


def component_status_of(name: str) -> ComponentStatus:
    """Return the ComponentStatus of one component."""
    port = _PORTS.get(name)
    refused = f'Get "https://127.0.0.1:{port}/healthz": dial tcp 127.0.0.1:{port}: connect: connection refused'
    healthy = ComponentCondition(type="Healthy", status="True", message="ok")
    absent = ComponentCondition(type="Healthy", status="False", message=refused)
    return ComponentStatus(metadata=ObjectMeta(name=name), conditions=(healthy if port is None else absent,))


def _list(ctx: RequestContext, components: list[ComponentStatus]) -> Response:
    if ctx.form.convert == "Table":
        return document_response(ctx, encode_unstored_table(ctx, ctx.resource, list(components), {}, is_list=True))
    items = [codec.to_plain(component) for component in components]
    kind, version = ctx.resource.list_kind, ctx.resource.group_version
    if ctx.form.convert:
        part = f"meta.k8s.io/{ctx.form.meta_version}"
        kind, version = "PartialObjectMetadataList", part
        items = [{"kind": "PartialObjectMetadata", "apiVersion": part, "metadata": item["metadata"]} for item in items]
    document = {"kind": kind, "apiVersion": version, "metadata": {}, "items": items}
    return document_response(ctx, msgspec.json.encode(document))
