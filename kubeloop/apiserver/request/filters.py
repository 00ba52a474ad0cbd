# SPDX-License-Identifier: Apache-2.0
"""Filters around all requests that flags turn on: CORS and HTTP Strict Transport Security."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubeloop.api.structural.go_regex import RegexError, compile_pattern
from kubeloop.apiserver.request.run_options import ServerRunOptions
from kubeloop.http import Handler, Request, Response

_CORS_HEADERS: Final = (
    ("Access-Control-Allow-Methods", "POST, GET, OPTIONS, PUT, DELETE, PATCH"),
    (
        "Access-Control-Allow-Headers",
        "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, "
        "If-Modified-Since",
    ),
    ("Access-Control-Expose-Headers", "Date"),
    ("Access-Control-Allow-Credentials", "true"),
)
_HSTS_HELP: Final = (
    "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload. "
    "see https://tools.ietf.org/html/rfc6797#section-6.1 for more information"
)


class FilterOptionError(ValueError):
    """Invalid setting of a filter; the message is upstream's."""


def with_filters(handler: Handler, options: ServerRunOptions) -> Handler:
    """Return the handler within the filters that are turned on; the handler itself if none is."""
    if options.cors_allowed_origins:
        handler = _CrossOriginFilter(handler, options.cors_allowed_origins).handle
    if options.hsts_directives:
        handler = _TransportSecurityFilter(handler, options.hsts_directives).handle
    return handler


def check_cors_origins(patterns: Sequence[str]) -> None:
    """Raise FilterOptionError for a pattern that does not compile, or that does not fix both ends of the host."""
    for pattern in patterns:
        if not pattern:
            raise FilterOptionError("empty value in --cors-allowed-origins")
        try:
            compile_pattern(pattern)
        except RegexError as error:
            raise _invalid_origin(str(error)) from None
        if not any(mark in pattern for mark in ("^", "//")) or not any(mark in pattern for mark in ("$", ":")):
            raise _invalid_origin("regular expression does not pin to start/end of host in the origin header")


def check_hsts_directives(directives: Sequence[str]) -> None:
    """Raise FilterOptionError for an unknown directive."""
    for directive in directives:
        if not directive.strip():
            raise FilterOptionError("empty value in strict-transport-security-directives")
        if directive in ("includeSubDomains", "preload"):
            continue
        if len(parts := directive.split("=")) != 2 or parts[0] != "max-age":
            raise FilterOptionError(_HSTS_HELP)


def _invalid_origin(why: str) -> FilterOptionError:
    return FilterOptionError(f"--cors-allowed-origins has an invalid regular expression: {why}")


class _CrossOriginFilter:
    """Adds CORS headers for allowed origins, and answers their preflight requests before authentication."""

    def __init__(self, handler: Handler, patterns: Sequence[str]) -> None:
        self._handler = handler
        self._patterns = [compile_pattern(pattern) for pattern in patterns]

    async def handle(self, request: Request) -> Response:
        origin = request.headers.get("origin", "")
        if not origin or not any(pattern.search(origin) for pattern in self._patterns):
            return await self._handler(request)
        headers = (("Access-Control-Allow-Origin", origin), *_CORS_HEADERS)
        if request.method == "OPTIONS":
            return Response(204, b"", "", headers)
        response = await self._handler(request)
        response.headers = (*response.headers, *headers)
        return response


class _TransportSecurityFilter:
    """Adds the header Strict-Transport-Security."""

    def __init__(self, handler: Handler, directives: Sequence[str]) -> None:
        self._handler = handler
        self._header = ("Strict-Transport-Security", "; ".join(directives))

    async def handle(self, request: Request) -> Response:
        response = await self._handler(request)
        response.headers = (*response.headers, self._header)
        return response
