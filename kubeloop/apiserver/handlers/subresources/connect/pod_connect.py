# SPDX-License-Identifier: Apache-2.0
"""Pod subresources that nodes serve through the API server: log, exec, attach and portforward.

They come from nodes of this process (`ApiServer.nodes`), or from kubelets that are dialled (`ApiServer.kubelets`).
Without both, these paths still check that pod and container exist and that the pod has a node, and then report that
the node does not answer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kubeloop.api import errors
from kubeloop.api.kubelet_requests import PodLogOptions
from kubeloop.api.meta import field_path
from kubeloop.api.meta.field_path import FieldError, FieldPath
from kubeloop.api.scalars.times import parse_time
from kubeloop.apiserver.authorization import ADMINISTRATORS
from kubeloop.apiserver.authorization.attributes import attributes_of_target
from kubeloop.apiserver.handlers.subresources.connect.connect_options import admit_connection
from kubeloop.apiserver.handlers.subresources.connect.node_connection import pod_dialer
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.response.documents import warning_headers
from kubeloop.apiserver.streaming.pods import PodStreamTarget, stream_response
from kubeloop.http import Response, ResponseStream, StreamResponse, encode_chunk

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer

_STREAMS = ("All", "Stderr", "Stdout")
_TEXT = "text/plain"


async def pod_log(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle GET of a container's log. A pod without a node has an empty log."""
    found = validate_log_options(ctx.query)
    if found:
        raise errors.invalid("", "PodLogOptions", ctx.target.name, found)
    pod = get_pod(ctx, server.registry, ctx.target.name)
    container = _choose_container(pod, ctx.query.text("container"))
    if not pod.spec.node_name:
        return Response(204, b"", "text/plain", warning_headers(ctx.warnings))
    return await log_response(pod_dialer(server, pod.spec.node_name).logs(pod, container, log_options(ctx)), ctx)


async def pod_stream(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle exec, attach and portforward: connect the client to a container."""
    await admit_connection(ctx, server)
    await _require_create_permission(ctx, server)
    pod = get_pod(ctx, server.registry, ctx.target.name)
    container = ""
    if ctx.target.subresource != "portforward":
        container = _choose_container(pod, ctx.query.text("container"))
    if not pod.spec.node_name:
        raise errors.bad_request(f"pod {pod.metadata.name} does not have a host assigned")
    stream = PodStreamTarget(pod_dialer(server, pod.spec.node_name), pod, container, ctx.target.subresource)
    return await stream_response(ctx.request, stream, ctx.query)


async def _require_create_permission(ctx: RequestContext, server: ApiServer) -> None:
    """Require the create permission for WebSockets, too, which clients open with GET."""
    if ctx.target.verb == "create" or ADMINISTRATORS in ctx.user.groups:
        return
    asked = attributes_of_target(ctx.user, ctx.request.method, ctx.target, "create", ctx.query)
    decision = await server.authorizer.wait_decision(asked)
    if not decision.allowed:
        raise errors.forbidden("", "pods", ctx.target.name, decision.reason)


def validate_log_options(query: Query) -> list[FieldError]:
    """Return the field errors of a request's log options."""
    found: list[FieldError] = []
    lines, limit, since = query.integer("tailLines"), query.integer("limitBytes"), query.integer("sinceSeconds")
    if lines is not None and lines < 0:
        found.append(field_path.invalid(FieldPath("tailLines"), lines, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        found.append(field_path.invalid(FieldPath("limitBytes"), limit, "must be greater than 0"))
    if since is not None and query.text("sinceTime"):
        # Upstream names no field here, and prints its empty path like this.
        told = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        found.append(field_path.forbidden(FieldPath("[]"), told))
    elif since is not None and since < 1:
        found.append(field_path.invalid(FieldPath("sinceSeconds"), since, "must be greater than 0"))
    _check_since_time(query.text("sinceTime"))
    return found + _stream_errors(query.text("stream"), lines)


def _check_since_time(text: str) -> None:
    if text:
        try:
            parse_time(text)
        except ValueError as error:
            raise errors.bad_request(str(error)) from None


def _stream_errors(stream: str, lines: int | None) -> list[FieldError]:
    if not stream or stream == "All":
        return []
    if stream not in _STREAMS:
        return [field_path.not_supported(FieldPath("stream"), stream, _STREAMS)]
    if lines is not None:
        return [
            field_path.forbidden(FieldPath("[]"), "`tailLines` and specific `stream` are mutually exclusive for now")
        ]
    return []


def get_pod(ctx: RequestContext, registry: StorageRegistry, name: str) -> Any:
    """Return a pod by name; raises NotFound."""
    pod = registry.get_object("pods", ctx.target.namespace, name)
    if pod is None:
        raise errors.not_found("", "pods", name)
    return pod


def _choose_container(pod: Any, asked: str) -> str:
    """Return the requested or only container; raises BadRequest for an unknown or ambiguous one."""
    spec, name = pod.spec, pod.metadata.name
    every = [one.name for one in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)]
    if asked:
        if asked not in every:
            raise errors.bad_request(f"container {asked} is not valid for pod {name}")
    elif len(spec.containers) != 1:
        raise errors.bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{' '.join(every)}]"
        )
    return asked or str(spec.containers[0].name)


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
    if ctx.request.upgrade and ctx.request.headers.get("upgrade", "").lower() == "websocket":
        from kubeloop.apiserver.watch.websocket import websocket_log_response  # rarely used

        return websocket_log_response(ctx.request.headers, _chain(first, pieces))
    if ctx.query.flag("follow"):
        return LogResponse(first, pieces, headers)
    return Response(200, [first, *[piece async for piece in pieces]], _TEXT, headers)


async def _chain(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield all pieces of a log, and close the iterator of the node when the client leaves."""
    async with aclosing(pieces) as rest:  # type: ignore[type-var]  # a node's logs are a generator
        yield first
        async for piece in rest:
            yield piece


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
                await stream.wait_drained()
        with suppress(RuntimeError):
            stream.close()
