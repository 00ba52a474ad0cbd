"""Container logs on their way from a node to a client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from datetime import timedelta

from kubeloop.api.node_calls import PodLogOptions
from kubeloop.api.scalars.times import parse_time
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.response.writers import warning_headers
from kubeloop.http import Response, ResponseStream, StreamResponse, encode_chunk

_TEXT = "text/plain"


def log_options(ctx: RequestContext) -> PodLogOptions:
    """Return the log options of a request that has been validated."""
    query = ctx.query
    seconds, moment = query.integer("sinceSeconds"), query.text("sinceTime")
    since = parse_time(moment) if moment else None
    if seconds is not None:
        since = ctx.now - timedelta(seconds=seconds)
    return PodLogOptions(
        follow=query.flag("follow"),
        previous=query.flag("previous"),
        timestamps=query.flag("timestamps"),
        tail_lines=query.integer("tailLines"),
        since=since,
        limit_bytes=query.integer("limitBytes"),
        stream=query.text("stream"),
        insecure=query.flag("insecureSkipTLSVerifyBackend"),
    )


async def log_response(pieces: AsyncIterator[bytes], ctx: RequestContext) -> Response:
    """Return the log as a response, or as a stream if followed; a node's error is raised before it begins."""
    first = await anext(pieces, b"")
    headers = warning_headers(ctx.warnings)
    if ctx.query.flag("follow"):
        return LogResponse(first, pieces, headers)
    return Response(200, [first, *[piece async for piece in pieces]], _TEXT, headers)


class LogResponse(StreamResponse):
    """Response that streams a followed log."""

    __slots__ = ("_first", "_pieces")

    def __init__(self, first: bytes, pieces: AsyncIterator[bytes], headers: tuple[tuple[str, str], ...]) -> None:
        super().__init__(200, content_type=_TEXT, headers=headers)
        self._first = first
        self._pieces = pieces

    async def run(self, stream: ResponseStream) -> None:
        """Stream the log's pieces until it ends or the client leaves."""
        if self._first:
            stream.write(encode_chunk(self._first))
        async with aclosing(self._pieces) as pieces:  # type: ignore[type-var]  # a node's logs are a generator
            async for piece in pieces:
                if stream.closed:
                    break
                stream.write(encode_chunk(piece))
                await stream.drained()
        with suppress(RuntimeError):
            stream.close()
