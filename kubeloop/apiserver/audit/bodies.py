# SPDX-License-Identifier: Apache-2.0
"""Request and response bodies for audit events, converted to JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeloop.api import errors
from kubeloop.apiserver.decoding import parse_yaml
from kubeloop.apiserver.decoding.value_limit import check_value_count
from kubeloop.http import Request, Response

# Responses with more bytes than this take more than a few milliseconds to decode.
_LARGE = 64 << 10


class _Meta(msgspec.Struct):
    name: str = ""


class _ObjectWithName(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


def name_in(request: Request) -> str:
    """Return the name of the object in a request's body; empty if there is none."""
    document = _document(request.body, request.headers.get("content-type", ""))
    try:
        return msgspec.convert(document, _ObjectWithName).metadata.name
    except msgspec.ValidationError:
        return ""


def request_object(request: Request, omit_managed_fields: bool) -> Any | None:
    """Return the request's object, or None."""
    return _shown(_document(request.body, request.headers.get("content-type", "")), omit_managed_fields)


def response_object(response: Response, omit_managed_fields: bool) -> Any | None:
    """Return the response's object, or None."""
    return _shown(_document(_body(response), response.content_type), omit_managed_fields)


def is_large_response(response: Response) -> bool:
    """Return True if decoding a response would delay other requests."""
    body = response.body
    return (len(body) if isinstance(body, bytes) else sum(map(len, body))) > _LARGE


def response_status(response: Response) -> dict[str, Any]:
    """Return the responseStatus of an audit event: the code, and the fields of a Status."""
    status: dict[str, Any] = {"metadata": {}}
    if response.status >= 400:
        document = _document(_body(response), response.content_type)
        if isinstance(document, dict) and document.get("kind") == "Status":
            told = ("status", "message", "reason", "details")
            status |= {field: document[field] for field in told if field in document}
    return {**status, "code": response.status}


def _body(response: Response) -> bytes:
    return response.body if isinstance(response.body, bytes) else b"".join(response.body)


def _document(body: bytes, content_type: str) -> Any | None:
    """Decode a body; None if it is empty, neither JSON nor YAML, or has too many values."""
    media = content_type.partition(";")[0].strip()
    if not body or "protobuf" in media or media.startswith("text/"):
        return None
    try:
        if "yaml" in media:
            return parse_yaml(body)[0]
        check_value_count(body)
        return msgspec.json.decode(body)
    except (errors.RequestEntityTooLarge, ValueError, RecursionError):
        return None


def _shown(document: Any | None, omit_managed_fields: bool) -> Any | None:
    if not omit_managed_fields or not isinstance(document, dict):
        return document
    if isinstance(document.get("items"), list):
        return {**document, "items": [_without_managed_fields(item) for item in document["items"]]}
    return _without_managed_fields(document)


def _without_managed_fields(document: Any) -> Any:
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
        return document
    meta = {field: value for field, value in document["metadata"].items() if field != "managedFields"}
    return {**document, "metadata": meta}
