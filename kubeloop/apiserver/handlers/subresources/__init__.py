# SPDX-License-Identifier: Apache-2.0
"""Subresources and virtual resources that don't serve the stored object itself.

    path ── SUBRESOURCES (by subresource) ──┐
         └─ UNSTORED (by resource) ─────────┴─▶ endpoint(ctx, server) ─▶ Response

Modules are imported on first use. `status`, `ephemeralcontainers`, `resize`, `approval` and `finalize` serve the
object itself and therefore need nothing here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from kubeloop.apiserver.request.context import RequestContext
from kubeloop.http import Response

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer

Endpoint = Callable[[RequestContext, "ApiServer"], Awaitable[Response]]


def _endpoint(module: str, name: str) -> Endpoint:
    @cache
    def found() -> Endpoint:
        endpoint: Endpoint = getattr(import_module(f"{__name__}.{module}"), name)
        return endpoint

    async def serve(ctx: RequestContext, server: ApiServer) -> Response:
        return await found()(ctx, server)

    return serve


SUBRESOURCES: dict[str, Endpoint] = {
    "attach": _endpoint("connect.pod_connect", "pod_stream"),
    "binding": _endpoint("binding", "bind"),
    "eviction": _endpoint("eviction", "evict"),
    "exec": _endpoint("connect.pod_connect", "pod_stream"),
    "log": _endpoint("connect.pod_connect", "pod_log"),
    "portforward": _endpoint("connect.pod_connect", "pod_stream"),
    "proxy": _endpoint("connect.proxy", "proxy"),
    "scale": _endpoint("scale", "scale"),
    "token": _endpoint("token", "request_token"),
}
# Resources that are computed per request and never stored, by their plural.
VIRTUAL_RESOURCES: dict[str, Endpoint] = {
    "bindings": _endpoint("binding", "bind"),
    "componentstatuses": _endpoint("componentstatuses", "component_statuses"),
    "localsubjectaccessreviews": _endpoint("reviews.access_reviews", "review_local_subject"),
    "selfsubjectaccessreviews": _endpoint("reviews.access_reviews", "review_self"),
    "selfsubjectreviews": _endpoint("reviews.identity_reviews", "review_self_subject"),
    "selfsubjectrulesreviews": _endpoint("reviews.access_reviews", "review_self_rules"),
    "subjectaccessreviews": _endpoint("reviews.access_reviews", "review_subject"),
    "tokenreviews": _endpoint("reviews.identity_reviews", "review_token"),
}
