# SPDX-License-Identifier: Apache-2.0
"""In-process calls to resources of extension API servers: sent over HTTP, decoded as others."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, cast
from urllib.parse import quote, urlencode

import msgspec

from kubeloop.api import codec, errors
from kubeloop.api.requests import Call, EventType, WatchEvent
from kubeloop.api.responses import decode_response, object_decoder
from kubeloop.api.unstructured import body_document
from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable
from kubeloop.apiserver.aggregator.remote import RemoteAPIServer
from kubeloop.apiserver.inprocess.stream import pieces_of
from kubeloop.apiserver.request.context import User
from kubeloop.http import Request, Response, StreamResponse

METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
_METADATA = "application/json;as={};g=meta.k8s.io;v=v1,application/json"
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


_LINE = msgspec.json.Decoder(_Line)


async def call_remote(remote: RemoteAPIServer, user: User, call: Call) -> Any:
    """Perform a call and return the decoded object; raises API errors."""
    return decode_response(await _read_body(await remote.forward(request_of(call), user)), call)


async def document_of(remote: RemoteAPIServer, user: User, path: str) -> Any:
    """Return the document at a non-resource path as plain data."""
    request = Request("GET", path, "", {"accept": "application/json"})
    return msgspec.json.decode(await _read_body(await remote.forward(request, user)))


async def stream_remote(remote: RemoteAPIServer, user: User, call: Call) -> AsyncGenerator[bytes, None]:
    """Yield a response's body in pieces."""
    response = await remote.forward(request_of(call), user)
    if isinstance(response, StreamResponse) and response.status < 400:
        async with aclosing(pieces_of(response)) as pieces:
            async for piece in pieces:
                yield piece
    elif body := await _read_body(response):
        yield body


async def watch_remote(remote: RemoteAPIServer, user: User, call: Call) -> AsyncGenerator[Sequence[WatchEvent], None]:
    """Yield batches of events until the remote server ends the watch."""
    decode, rest = object_decoder(call.resource, call.metadata_only), b""
    async with aclosing(stream_remote(remote, user, call)) as pieces:
        async for piece in pieces:
            *lines, rest = (rest + piece).split(b"\n")
            batch = [_event(line, decode) for line in lines if line.strip()]
            if batch:
                yield batch


def request_of(call: Call) -> Request:
    """Return the HTTP request of a call."""
    accept = "application/json"
    if call.metadata_only:
        accept = _METADATA.format("PartialObjectMetadataList" if call.verb == "list" else "PartialObjectMetadata")
    options = dict(call.options) | ({"watch": "true"} if call.verb == "watch" else {})
    headers = {"accept": accept, "user-agent": call.user_agent}
    request = Request(METHODS[call.verb], path_of(call), urlencode(options), headers)
    if call.body is not None:
        request.headers["content-type"] = call.patch_type or "application/json"
        request.body = call.body if isinstance(call.body, bytes) else codec.encode(body_document(call.body))
    return request


def path_of(call: Call) -> str:
    """Return the path of a call."""
    resource = call.resource
    parts = [f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"]
    if call.namespace:
        parts += ["namespaces", quote(call.namespace, safe="")]
    parts.append(resource.plural)
    parts += [quote(part, safe=":") for part in (call.name, call.subresource) if part]
    return "/".join(parts)


async def _read_body(response: Response) -> bytes:
    """Return the body of a successful response; raise any other as API error, from a Status or plain text."""
    if isinstance(response, StreamResponse):
        try:
            async with aclosing(pieces_of(response)) as pieces:
                body = b"".join([piece async for piece in pieces])
        except RemoteUnreachable as error:
            raise errors.ApiError(str(error), code=503) from None
    else:
        body = response.body if isinstance(response.body, bytes) else b"".join(response.body)
    if response.status < 400:
        return body
    try:
        failure = errors.from_status(msgspec.json.decode(body))
    except (msgspec.DecodeError, TypeError, AttributeError, KeyError):
        failure = errors.generic_server_response(response.status, body.decode("utf-8", "replace").strip())
    raise failure


def _event(line: bytes, decode: Any) -> WatchEvent:
    found = _LINE.decode(line)
    if found.type == "ERROR":
        raise errors.from_status(msgspec.json.decode(found.object))
    if found.type == "BOOKMARK":
        meta = msgspec.json.decode(found.object)["metadata"]
        last = (meta.get("annotations") or {}).get(_INITIAL_EVENTS_END) == "true"
        return WatchEvent("BOOKMARK", None, meta.get("resourceVersion", ""), last)
    obj = decode(found.object)
    return WatchEvent(cast(EventType, found.type), obj, obj.metadata.resource_version)
