"""As whom this server speaks to others, and how it tells them for whom: a certificate, and headers they believe."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from kubeloop.api.generated.apiregistration_v1 import APIService
from kubeloop.apiserver.request.context import User
from kubeloop.http import Request

AGGREGATOR = User("system:kube-aggregator", ("system:masters",))
# What a header's name may hold unescaped, besides letters and digits; a percent sign begins an escape.
_SAFE_IN_NAMES = "!#$&'*+-.^_`|~"
# These are about one connection, or about who asks, which is told anew.
_DROPPED = {
    *("host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length", "expect"),
    *("proxy-authenticate", "proxy-authorization", "proxy-connection"),
    *("authorization", "audit-id", "x-forwarded-for"),
}
_DROPPED_PREFIXES = ("x-remote-", "impersonate-")
_UNSAFE = str.maketrans({"\r": " ", "\n": " "})


class ProxyIdentity(NamedTuple):
    """The certificate by which extension API servers know this one; without it they are asked anonymously."""

    certificate: Path
    key: Path


def context_for(api: APIService, identity: ProxyIdentity | None) -> ssl.SSLContext:
    """TLS to the server of an APIService; raises `ssl.SSLError`, OSError or ValueError for what can't be used."""
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
    """Who asks, in the headers that the config map extension-apiserver-authentication names."""
    yield "X-Remote-User", user.name
    if user.uid:
        yield "X-Remote-Uid", user.uid
    for group in user.groups:
        yield "X-Remote-Group", group
    for key, values in user.extra:
        for value in values:
            yield f"X-Remote-Extra-{quote(key, safe=_SAFE_IN_NAMES)}", value


def forwarded_headers(request: Request, audit_id: str) -> Iterator[tuple[str, str]]:
    """What is passed on of a client's own headers."""
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
    """A client's request as it is sent on."""
    target = f"{request.path}?{request.query}" if request.query else request.path
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {host}"]
    headers = (*forwarded_headers(request, audit_id), *user_headers(user))
    lines += [f"{name}: {value.translate(_UNSAFE)}" for name, value in headers]
    if request.body or request.method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(request.body)}")
    return "\r\n".join((*lines, "", "")).encode("utf-8", "surrogateescape") + request.body


def plain_get(path: str, headers: Mapping[str, str] | None = None) -> Request:
    """A question of this server's own."""
    return Request("GET", path, "", dict(headers or {}))
