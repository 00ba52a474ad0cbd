# SPDX-License-Identifier: Apache-2.0
"""componentstatuses: health of the control plane's components. Deprecated, but still used by people."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from kubeloop.api import codec, errors
from kubeloop.api.generated.core_v1 import ComponentCondition, ComponentStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.apiserver.handlers.subresources.unstored_responses import encode_unstored_table, unstored_object_response
from kubeloop.apiserver.nonresource.health import Check
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.response.writers import document_response
from kubeloop.http import Response

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer

_DEPRECATED = "v1 ComponentStatus is deprecated in v1.19+"
# Upstream's ports of the other components, on the same machine.
_DEFAULT_PORTS: Final = {"controller-manager": 10257, "scheduler": 10259}
_STORE: Final = "etcd-0"


class ComponentProbes:
    """Ports at which components of this machine are probed, and checks of components in this process."""

    def __init__(self) -> None:
        self.ports = dict(_DEFAULT_PORTS)
        self.checks: dict[str, Check] = {}

    def set_port(self, component: str, port: int) -> None:
        """Probe a component at another port."""
        self.ports[component] = port

    def set_check(self, component: str, check: Check) -> None:
        """Ask a component of this process, which has no port."""
        self.checks[component] = check


async def component_statuses(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle GET of one component, or of the list of all."""
    ctx.warn(_DEPRECATED)
    names = sorted((*server.components.ports, _STORE))
    if ctx.target.verb == "get":
        if ctx.target.name not in names:
            raise errors.not_found("", "componentstatus", ctx.target.name)
        return unstored_object_response(ctx, ctx.resource, await _component_status(server, ctx.target.name))
    if ctx.target.verb != "list":
        raise errors.generic_server_response(405)
    return _list(ctx, await asyncio.gather(*(_component_status(server, name) for name in names)))


async def _component_status(server: ApiServer, name: str) -> ComponentStatus:
    """Return the status of the store and of components in this process; others are probed."""
    if (check := server.components.checks.get(name)) is not None:
        condition = _condition(check())
    elif name != _STORE:
        from kubeloop.apiserver.handlers.subresources.component_probe import probe_component

        condition = await probe_component(server.components.ports[name])
    elif error := server.registry.store.last_error:
        condition = ComponentCondition(type="Healthy", status="False", error=error)
    else:
        condition = ComponentCondition(type="Healthy", status="True", message="ok")
    return ComponentStatus(metadata=ObjectMeta(name=name), conditions=(condition,))


def _condition(problem: str) -> ComponentCondition:
    if problem:
        return ComponentCondition(type="Healthy", status="False", message=problem)
    return ComponentCondition(type="Healthy", status="True", message="ok")


def _list(ctx: RequestContext, components: Sequence[ComponentStatus]) -> Response:
    if ctx.format.convert == "Table":
        return document_response(ctx, encode_unstored_table(ctx, ctx.resource, list(components), {}, is_list=True))
    items = [codec.to_plain(component) for component in components]
    kind, version = ctx.resource.list_kind, ctx.resource.group_version
    if ctx.format.convert:
        part = f"meta.k8s.io/{ctx.format.meta_version}"
        kind, version = "PartialObjectMetadataList", part
        items = [{"kind": "PartialObjectMetadata", "apiVersion": part, "metadata": item["metadata"]} for item in items]
    document = {"kind": kind, "apiVersion": version, "metadata": {}, "items": items}
    return document_response(ctx, msgspec.json.encode(document))
