# SPDX-License-Identifier: Apache-2.0
"""`/flagz`, `/statusz` and `/configz` of the nodes of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from kubeloop.api.errors import ApiError
from kubeloop.api.kubelet_requests import NodeRequest, NodeResponse
from kubeloop.apiserver.nonresource.zpages import flagz_response, statusz_response
from kubeloop.clock import Clock
from kubeloop.http import Response
from kubeloop.kubelet.agent_config import NodePage
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration, to_plain

_COMPONENT = "kubelet"
# First segments of the kubelet's paths.
_PATHS = (
    *("/healthz", "/metrics", "/pods", "/runningpods", "/stats", "/configz", "/containerLogs", "/run", "/exec"),
    *("/attach", "/portForward", "/logs", "/flagz"),
)


def kubelet_zpages(
    flags: Mapping[str, str], clock: Clock, settings: KubeletConfiguration | None = None
) -> dict[str, NodePage]:
    """Return the pages by their path segment, `/configz` for a program with settings; the program starts now."""
    started = clock.now()

    def flagz(request: NodeRequest) -> NodeResponse:
        return _node_response(lambda: flagz_response(_COMPONENT, flags, request.accept))

    def statusz(request: NodeRequest) -> NodeResponse:
        return _node_response(lambda: statusz_response(_COMPONENT, started, clock.now(), _PATHS, request.accept))

    def configz(request: NodeRequest) -> NodeResponse:
        shown = {"kubeletconfig": to_plain(settings or KubeletConfiguration())}
        return NodeResponse(200, msgspec.json.encode(shown), "application/json")

    pages: dict[str, NodePage] = {"flagz": flagz, "statusz": statusz}
    return pages if settings is None else {**pages, "configz": configz}


def _node_response(respond: Callable[[], Response]) -> NodeResponse:
    try:
        response = respond()
    except ApiError as error:
        return NodeResponse(error.code, error.message.encode())
    assert isinstance(response.body, bytes)
    return NodeResponse(response.status, response.body, response.content_type)
