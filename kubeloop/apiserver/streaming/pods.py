# SPDX-License-Identifier: Apache-2.0
"""exec, attach and portforward of a client to a pod, with its node on the other side."""

from __future__ import annotations

from typing import NamedTuple

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.kubelet_requests import (
    NodeConnectionRefused,
    PodConnections,
    PodDialer,
    PodStreamRequest,
    PortConnection,
    StandardStreams,
)
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.streaming.commands import command_response
from kubeloop.apiserver.streaming.port_forward import PortForwarder, forward_response
from kubeloop.apiserver.streaming.sessions import Run, stream_options_of
from kubeloop.http import Request, Response

_OF_API_SERVER = ("stdin", "stdout", "stderr")
OF_KUBELET = ("input", "output", "error")
_FAILURES = {"exec": "error executing command in container", "attach": "error attaching to container"}


class PodStreamTarget(NamedTuple):
    """Target of a streaming request: dialer, pod, container and kind of connection."""

    nodes: PodDialer
    pod: Pod
    container: str  # empty for ports
    how: str  # exec, attach or portforward


async def stream_response(
    request: Request, stream: PodStreamTarget, query: Query, names: tuple[str, str, str] = _OF_API_SERVER
) -> Response:
    """Return the upgrade response; `names` are the query options for stdin, stdout and stderr."""
    if not request.upgrade:
        raise errors.bad_request("Upgrade request required")
    nodes, pod, container, how = stream
    wanted, options = PodStreamRequest(how), None
    if how != "portforward":
        options = stream_options_of(query, names)
        wanted = PodStreamRequest(how, query.all_values("command") if how == "exec" else (), *options)
    try:
        connections = await nodes.open(pod, container, wanted)
    except NodeConnectionRefused as refused:
        return Response(refused.status, refused.body, refused.content_type)
    try:
        if options is None:
            return forward_response(request, _forwarding(connections, pod))
        return command_response(request, options, _run(connections, stream, wanted), _FAILURES[how])
    except errors.ApiError:
        connections.close()
        raise


def _run(connections: PodConnections, stream: PodStreamTarget, wanted: PodStreamRequest) -> Run:
    async def attach(streams: StandardStreams) -> None:
        await connections.attach(stream.pod, stream.container, streams)

    async def execute(streams: StandardStreams) -> int:
        return await connections.execute(stream.pod, stream.container, wanted.command, streams)

    return attach if wanted.operation == "attach" else execute


def _forwarding(connections: PodConnections, pod: Pod) -> PortForwarder:
    async def connect(port: int, connection: PortConnection) -> None:
        await connections.forward(pod, port, connection)

    # As a container runtime's own server: the pod is named by its sandbox, and its UID is left out.
    return PortForwarder(connect, pod.metadata.uid, "", connections.close)
