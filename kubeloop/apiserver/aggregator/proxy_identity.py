# SPDX-License-Identifier: Apache-2.0
"""Identity towards extension API servers: the proxy client certificate, and the request headers for the user."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from kubeloop.api.generated.apiregistration_v1 import APIService
from kubeloop.apiserver.request.context import User
from kubeloop.http import Request
from kubeloop.http.client import encode_request

AGGREGATOR = User("system:kube-aggregator", ("system:masters",))
# Characters of a header name besides letters and digits that need no escape; a percent sign begins an escape.
_SAFE_IN_NAMES = "!#$&'*+-.^_`|~"
# Headers of one connection, besides those that the header Connection names.
_HOP_BY_HOP = frozenset({
    *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect", "http2-settings"),
    *("proxy-authenticate", "proxy-authorization", "proxy-connection"),
})  # fmt: skip
# Headers that are replaced.
_DROPPED = frozenset({"host", "content-length", "authorization", "audit-id", "x-forwarded-for"})
_DROPPED_PREFIXES = ("x-remote-", "impersonate-")
# With another version of HTTP, a client would send requests of any user through the connection.
_HTTP_2 = ("h2c", "h2")
_UNSAFE = str.maketrans({"\r": " ", "\n": " ", "\0": " "})
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class ProxyIdentity(NamedTuple):
    """Proxy client certificate; without it, requests to extension API servers are anonymous."""

    certificate: Path
    key: Path

    def stamp(self) -> tuple[int, ...]:
        """Return a value that changes with the files; empty if they cannot be read."""
        try:
            return tuple(number for path in self for number in _stamp(path))
        except OSError:
            return ()


def _stamp(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


def context_for(api: APIService, identity: ProxyIdentity | None) -> ssl.SSLContext:
    """Return the TLS context for an APIService; raises `ssl.SSLError`, OSError or ValueError for bad input."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if api.spec.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif api.spec.ca_bundle:
        context.load_verify_locations(cadata=api.spec.ca_bundle.decode("ascii"))
    else:
        context.load_default_certs()
    if identity is not None:
        context.load_cert_chain(identity.certificate, identity.key)
    return context


class InvalidUserHeader(ValueError):
    """Error for a user, group or extra value that a header would not carry unchanged."""

    def __init__(self, name: str) -> None:
        super().__init__(f'net/http: invalid header field value for "{name}"')


def user_headers(user: User) -> Iterator[tuple[str, str]]:
    """Yield the request headers of the user, as named in extension-apiserver-authentication.

    Raises `InvalidUserHeader`: without its spaces, for instance, a group is another group.
    """
    for name, value in _user_headers(user):
        if value != value.strip() or _CONTROL.search(value):
            raise InvalidUserHeader(name)
        yield name, value


def _user_headers(user: User) -> Iterator[tuple[str, str]]:
    yield "X-Remote-User", user.name
    if user.uid:
        yield "X-Remote-Uid", user.uid
    for group in user.groups:
        yield "X-Remote-Group", group
    for key, values in user.extra:
        for value in values:
            yield f"X-Remote-Extra-{quote(key, safe=_SAFE_IN_NAMES)}", value


def end_to_end_headers(request: Request) -> Iterator[tuple[str, str]]:
    """Yield the headers that are not about the client's connection."""
    named = {token.strip().lower() for token in request.headers.get("connection", "").split(",")}
    for name, value in request.headers.items():
        if name not in _HOP_BY_HOP and name not in named:
            yield name, value


def forwarded_headers(request: Request, audit_id: str) -> Iterator[tuple[str, str]]:
    """Yield the client's headers that are forwarded."""
    for name, value in end_to_end_headers(request):
        if name not in _DROPPED and not name.startswith(_DROPPED_PREFIXES):
            yield name, value
    protocol = request.headers.get("upgrade", "")
    if request.upgrade and protocol.strip().lower() not in _HTTP_2:
        yield "Connection", "Upgrade"
        yield "Upgrade", protocol
    if audit_id:
        yield "Audit-Id", audit_id
    before = request.headers.get("x-forwarded-for", "")
    via = ", ".join(one for one in (before, request.remote[0]) if one)
    if via:
        yield "X-Forwarded-For", via


def request_bytes(request: Request, host: str, user: User, audit_id: str = "") -> bytes:
    """Return the encoded request as forwarded."""
    target = f"{request.path}?{request.query}" if request.query else request.path
    headers = (*forwarded_headers(request, audit_id), *user_headers(user))
    sent = [("Host", host), *((name, value.translate(_UNSAFE)) for name, value in headers)]
    return encode_request(request.method, target, sent, request.body)


def plain_get(path: str, headers: Mapping[str, str] | None = None) -> Request:
    """Return a GET request of this server's own."""
    return Request("GET", path, "", dict(headers or {}))
