"""Identity towards extension API servers: the proxy client certificate, and the request headers for the user."""

from __future__ import annotations

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
# Headers of the connection or of the user, which are replaced.
_DROPPED = {
    *("host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length", "expect"),
    *("proxy-authenticate", "proxy-authorization", "proxy-connection"),
    *("authorization", "audit-id", "x-forwarded-for"),
}
_DROPPED_PREFIXES = ("x-remote-", "impersonate-")
_UNSAFE = str.maketrans({"\r": " ", "\n": " ", "\0": " "})


class ProxyIdentity(NamedTuple):
    """Proxy client certificate; without it, requests to extension API servers are anonymous."""

    certificate: Path
    key: Path


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


def user_headers(user: User) -> Iterator[tuple[str, str]]:
    """Yield the request headers of the user, as named in extension-apiserver-authentication."""
    yield "X-Remote-User", user.name
    if user.uid:
        yield "X-Remote-Uid", user.uid
    for group in user.groups:
        yield "X-Remote-Group", group
    for key, values in user.extra:
        for value in values:
            yield f"X-Remote-Extra-{quote(key, safe=_SAFE_IN_NAMES)}", value


def forwarded_headers(request: Request, audit_id: str) -> Iterator[tuple[str, str]]:
    """Yield the client's headers that are forwarded."""
    for name, value in request.headers.items():
        if name not in _DROPPED and not name.startswith(_DROPPED_PREFIXES):
            yield name, value
    if request.upgrade:
        yield "Connection", "Upgrade"
        yield "Upgrade", request.headers.get("upgrade", "")
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
