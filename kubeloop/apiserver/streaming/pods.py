"""A client connected to a pod: exec, attach or portforward, with a node at the other end."""

from __future__ import annotations

from typing import NamedTuple

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.node_calls import Duplex, NodeDialer, Streams
from kubeloop.apiserver.http import Request, Response
from kubeloop.apiserver.query import Query
from kubeloop.apiserver.streaming.commands import command_response
from kubeloop.apiserver.streaming.forwarding import Forwarding, forward_response
from kubeloop.apiserver.streaming.sessions import options_of

_OF_API_SERVER = ("stdin", "stdout", "stderr")
OF_KUBELET = ("input", "output", "error")


class Stream(NamedTuple):
    """What a client wants to be connected to."""

    nodes: NodeDialer
    pod: Pod
    container: str  # empty for ports
    how: str  # exec, attach or portforward


def stream_response(
    request: Request, stream: Stream, query: Query, names: tuple[str, str, str] = _OF_API_SERVER
) -> Response:
    """The upgrade, or why there is none; `names` are those of the options for input, output and errors."""
    if not request.upgrade:
        raise errors.bad_request("Upgrade request required")
    nodes, pod, container, how = stream
    if how == "portforward":
        return _unless_refused(stream) or forward_response(request, _forwarding(nodes, pod))
    options = options_of(query, names)
    refusal = _unless_refused(stream)
    if refusal is not None:
        return refusal
    if how == "attach":

        async def attach(streams: Streams) -> None:
            await nodes.attach(pod, container, streams)

        return command_response(request, options, attach, "error attaching to container")
    command = query.every("command")

    async def execute(streams: Streams) -> int:
        return await nodes.execute(pod, container, command, streams)

    return command_response(request, options, execute, "error executing command in container")


def _unless_refused(stream: Stream) -> Response | None:
    why = stream.nodes.why_no_stream(stream.pod, stream.container)
    return Response(500, why.encode(), "text/plain; charset=utf-8") if why else None


def _forwarding(nodes: NodeDialer, pod: Pod) -> Forwarding:
    async def connect(port: int, connection: Duplex) -> None:
        await nodes.forward(pod, port, connection)

    # As with a container runtime's own server: the pod is named by its sandbox, and its uid left out.
    return Forwarding(connect, pod.metadata.uid, "")
