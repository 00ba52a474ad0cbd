# SPDX-License-Identifier: Apache-2.0
"""Calls as HTTP requests, and large lists decoded from responses."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

from kubeloop.api import codec
from kubeloop.api.kinds import Resource
from kubeloop.api.requests import Call, ListResult
from kubeloop.api.responses import decode_items, list_result, split_list
from kubeloop.api.unstructured import body_document
from kubeloop.client.errors import UsageError
from kubeloop.client.interner import Interner
from kubeloop.http.client import InvalidRequestHead, encode_request

CAUSE_HEADER = "Kubeloop-Cause"

_JSON = "application/json"
_PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_MAX_CAUSE = 2048
_METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
# Bytes from which on a list is large: a page of 500 small objects; and items a slice: some 10 ms of work.
LARGE = 1 << 18
_SLICE = 250


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """Request before encoding; credentials are added for every attempt."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""
    guard: Callable[[], None] | None = None

    def encode(self, more: Iterable[tuple[str, str]]) -> bytes:
        """Return the bytes on the wire. Raises `UsageError` for header values that would break the framing."""
        try:
            return encode_request(self.method, self.target, (*self.headers.items(), *more), self.body)
        except InvalidRequestHead as error:
            raise UsageError(str(error)) from None

    def with_prefix(self, prefix: str) -> HttpRequest:
        """Return the same request below a path prefix."""
        return replace(self, target=prefix + self.target)


def request_of(call: Call) -> HttpRequest:
    """Convert a call to an HTTP request, without host and credentials, which the connection adds."""
    headers = {"Accept": _accept(call), "User-Agent": call.user_agent}
    body = b""
    if call.body is not None:
        body = call.body if isinstance(call.body, bytes) else codec.encode(body_document(call.body))
        headers["Content-Type"] = call.patch_type or _JSON
    if call.cause:
        headers[CAUSE_HEADER] = quote(call.cause, safe=" /:;,=@()[]{}")[:_MAX_CAUSE]
    return HttpRequest(_METHODS[call.verb], target_of(call), headers, body, call.guard)


def _accept(call: Call) -> str:
    if call.subresource == "log":
        return "*/*"
    if call.metadata_only:
        return _PARTIAL_LIST if call.verb == "list" else _PARTIAL
    return _JSON


def path_of(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return a path such as `/api/v1/namespaces/x/pods/y/log` or `/apis/apps/v1/deployments`."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    parts = [root]
    if namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(resource.plural)
    if name:
        parts.append(quote(name, safe=":"))
    if subresource:
        parts.append(quote(subresource))
    return "/".join(parts)


def target_of(call: Call) -> str:
    """Return the path with its query."""
    path = path_of(call.resource, call.namespace, call.name, call.subresource)
    options = dict(call.options)
    if call.verb == "watch":
        options["watch"] = "true"
    return f"{path}?{urlencode(options)}" if options else path


async def decode_large_list(body: bytes, call: Call, sharing: Interner) -> ListResult:
    """Decode a list in slices, which do not block the event loop; intern its items, because large lists are kept."""
    raw, meta = split_list(body)
    items: list[Any] = []
    for start in range(0, len(raw), _SLICE):
        items += _decode_slice(raw[start : start + _SLICE], call, sharing)
        await asyncio.sleep(0)
    return list_result(items, meta)


def _decode_slice(raw: Any, call: Call, sharing: Interner) -> list[Any]:
    # All objects created here are kept, so a garbage collection would find nothing and take longer than decoding.
    collecting = gc.isenabled()
    gc.disable()
    try:
        items = decode_items(raw, call.resource, call.metadata_only)
        for one in items:
            sharing.intern(one)
        return items
    finally:
        if collecting:
            gc.enable()
