# SPDX-License-Identifier: Apache-2.0
"""`/flagz` and `/statusz` of the nodes of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubeloop.api.errors import ApiError
from kubeloop.api.kubelet_requests import NodeRequest, NodeResponse
from kubeloop.apiserver.nonresource.zpages import flagz_response, statusz_response
from kubeloop.clock import Clock
from kubeloop.http import Response
from kubeloop.kubelet.agent_config import NodePage

_COMPONENT = "kubelet"
# First segments of the kubelet's paths.
_PATHS = (
    *("/healthz", "/metrics", "/pods", "/runningpods", "/stats", "/configz", "/containerLogs", "/run", "/exec"),
    *("/attach", "/portForward", "/logs", "/flagz"),
)


def kubelet_zpages(flags: Mapping[str, str], clock: Clock) -> dict[str, NodePage]:
    """Return both pages by their path segment; the program starts now."""
    started = clock.now()

    def flagz(request: NodeRequest) -> NodeResponse:
        return _node_response(lambda: flagz_response(_COMPONENT, flags, request.accept))

    def statusz(request: NodeRequest) -> NodeResponse:
        return _node_response(lambda: statusz_response(_COMPONENT, started, clock.now(), _PATHS, request.accept))

    return {"flagz": flagz, "statusz": statusz}


def _node_response(respond: Callable[[], Response]) -> NodeResponse:
    try:
        response = respond()
    except ApiError as error:
        return NodeResponse(error.code, error.message.encode())
    assert isinstance(response.body, bytes)
    return NodeResponse(response.status, response.body, response.content_type)
