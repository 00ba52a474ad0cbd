# SPDX-License-Identifier: Apache-2.0
"""Encoding of JSON documents in the negotiated format, and Status responses of errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from kubeloop.api import errors
from kubeloop.apiserver.request.negotiation import ACCEPTED, PLAIN, PROTOBUF, ResponseFormat, requested_format
from kubeloop.http import Request, Response

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
# Upstream sends it with text, so that no browser takes it for HTML.
NO_SNIFF: Final = (("X-Content-Type-Options", "nosniff"),)
_INDENTED: Final = ResponseFormat(pretty=True)


def encode_document(document: bytes, form: ResponseFormat) -> tuple[bytes, str]:
    """Return a JSON document in a format, with the media type; a newline ends compact JSON only, as upstream."""
    if form.yaml:
        return _to_yaml(document), "application/yaml"
    if form.protobuf:
        return _to_protobuf(document), PROTOBUF
    return (msgspec.json.format(document, indent=2) if form.pretty else document + b"\n"), JSON


def status_response(error: errors.ApiError, warnings: Iterable[str] = (), request: Request | None = None) -> Response:
    """Return the response for an API error in the format of the request, with the warnings collected so far."""
    headers = (*error.headers.items(), *(warning_headers(warnings) if warnings else ()))
    document = msgspec.json.encode(error.status())
    body, media = encode_document(document, PLAIN if request is None else _format_of_error(request))
    return Response(error.code, body, media, headers)


def _format_of_error(request: Request) -> ResponseFormat:
    """Return the requested format; an error is shown as indented JSON if the client accepts no supported one."""
    try:
        return requested_format(request, convertible=False)
    except errors.NotAcceptable:
        return _INDENTED


def warning_headers(warnings: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return Warning headers as kubectl prints them: `299 - "text"`, quotes and backslashes escaped."""
    escape = str.maketrans({'"': '\\"', "\\": "\\\\"})
    return tuple(("Warning", f'299 - "{_one_line(text).translate(escape)}"') for text in warnings)


def not_found_response() -> Response:
    """Return the plain-text 404 response of an unknown path."""
    return Response(404, b"404 page not found\n", TEXT, NO_SNIFF)


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def _to_yaml(document: bytes) -> bytes:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    plain = msgspec.json.decode(document)
    text: str = yaml.dump(plain, Dumper=dumper, default_flow_style=False, allow_unicode=True)
    return text.encode()


def _to_protobuf(document: bytes) -> bytes:
    from kubeloop.api import protobuf  # imported on first use

    plain = msgspec.json.decode(document)
    plain.setdefault("apiVersion", "")  # documents of discovery have none
    if not protobuf.is_known(plain["apiVersion"], plain["kind"]):
        raise errors.not_acceptable(ACCEPTED)
    return protobuf.encode_object(plain)
