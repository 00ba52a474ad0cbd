# SPDX-License-Identifier: Apache-2.0
"""Request and response bodies for audit events, converted to JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeloop.api import errors
from kubeloop.api.protobuf import ProtobufError, decode_object, is_known, open_envelope
from kubeloop.apiserver.decoding import parse_yaml
from kubeloop.apiserver.decoding.value_limit import check_value_count
from kubeloop.http import Request, Response

# Responses with more bytes than this take more than a few milliseconds to decode.
_LARGE = 64 << 10
# A Status begins with its kind.
_STATUS_HEAD = 40
_NOT_ACCEPTABLE = 406


def request_object(request: Request, omit_managed_fields: bool) -> Any | None:
    """Return the patch that is a request's body, or None."""
    document = _document(request.body, request.headers.get("content-type", ""))
    return without_managed_fields(document, omit_managed_fields)


def response_object(response: Response, omit_managed_fields: bool) -> Any | None:
    """Return the response's object, or None."""
    body = _body(response)
    if _is_not_negotiated(response, body):
        return None
    is_protobuf = "protobuf" in response.content_type
    document = _decoded_protobuf(body) if is_protobuf else _document(body, response.content_type)
    return without_managed_fields(document, omit_managed_fields)


def is_large_response(response: Response) -> bool:
    """Return True if decoding a response would delay other requests."""
    body = response.body
    return (len(body) if isinstance(body, bytes) else sum(map(len, body))) > _LARGE


def response_status(response: Response) -> dict[str, Any]:
    """Return the responseStatus of an audit event: the code, and the fields of a Status."""
    status: dict[str, Any] = {"metadata": {}}
    body = _body(response)
    if _is_not_negotiated(response, body):
        return {**status, "code": response.status}
    if response.status >= 400 or b'"kind":"Status"' in body[:_STATUS_HEAD]:
        document = _document(body, response.content_type)
        if isinstance(document, dict) and document.get("kind") == "Status":
            told = ("status", "message", "reason", "details")
            status |= {field: document[field] for field in told if field in document}
    return {**status, "code": response.status}


def _body(response: Response) -> bytes:
    return response.body if isinstance(response.body, bytes) else b"".join(response.body)


def _is_not_negotiated(response: Response, body: bytes) -> bool:
    """Return True if no format was acceptable: upstream then writes an error that it does not log."""
    return response.status == _NOT_ACCEPTABLE and b"406: Not Acceptable" in body


def _decoded_protobuf(body: bytes) -> Any | None:
    """Decode a response in protobuf to JSON; None for a stream or an unknown kind."""
    try:
        envelope = open_envelope(body)
        known = is_known(envelope.api_version, envelope.kind)
        return decode_object(envelope.api_version, envelope.kind, envelope.raw) if known else None
    except ProtobufError:
        return None


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


def without_managed_fields(document: Any | None, omit_managed_fields: bool) -> Any | None:
    """Return a document, without managedFields if they are to be omitted."""
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
