# SPDX-License-Identifier: Apache-2.0
"""A kubelet's HTTP paths, served at its own port or through the API server's proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any
from urllib.parse import parse_qsl

from kubeloop.api.kubelet_requests import NodeDialer, NodeRequest, NodeResponse
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.streaming.pods import OF_KUBELET, stream_response
from kubeloop.apiserver.streaming.pods import PodStreamTarget as PodStream
from kubeloop.http import Request, Response, ResponseStream, StreamResponse, encode_chunk

FindPod = Callable[[str, str], Any]  # by namespace and name
_STREAMS = {"exec": 3, "attach": 3, "portForward": 2}  # number of path segments that follow, without a UID
_TEXT = "text/plain; charset=utf-8"


async def kubelet_response(request: Request, path: str, node: str, nodes: NodeDialer, find: FindPod) -> Response:
    """Return the response of a node to a request for one of its paths."""
    first, *rest = path.strip("/").split("/")
    if first in _STREAMS:
        return await _stream_response(request, first, rest, node, nodes, find)
    pairs = tuple(parse_qsl(request.query, keep_blank_values=True))
    accept = request.headers.get("accept", "")
    asked = NodeRequest(method=request.method, path=path, query=pairs, body=request.body, accept=accept)
    return _response(await nodes.send_request(node, asked))


async def _stream_response(
    request: Request, how: str, words: list[str], node: str, nodes: NodeDialer, find: FindPod
) -> Response:
    count = _STREAMS[how]
    if len(words) not in (count, count + 1):
        return Response(404, b"404 page not found\n", _TEXT)
    namespace, name = words[:2]
    uid = words[2] if len(words) > count else ""
    container = words[-1] if how != "portForward" else ""
    pod = find(namespace, name)
    if pod is None or pod.spec.node_name != node or uid not in ("", pod.metadata.uid):
        return Response(404, b"pod does not exist", _TEXT)
    stream = PodStream(nodes, pod, container, how.lower())
    return await stream_response(request, stream, Query(request.query), OF_KUBELET)


def _response(answer: NodeResponse) -> Response:
    if isinstance(answer.body, bytes):
        return Response(answer.status, answer.body, answer.content_type)
    return _Pieces(answer.status, answer.body, answer.content_type)


class _Pieces(StreamResponse):
    """Streamed page of a node."""

    __slots__ = ("_pieces",)

    def __init__(self, status: int, pieces: AsyncIterator[bytes], content_type: str) -> None:
        super().__init__(status, content_type=content_type)
        self._pieces = pieces

    async def run(self, stream: ResponseStream) -> None:
        async with aclosing(self._pieces) as pieces:  # type: ignore[type-var]  # a node's pages are generators
            async for piece in pieces:
                if stream.closed:
                    return
                stream.write(encode_chunk(piece))
                await stream.wait_drained()
