# SPDX-License-Identifier: Apache-2.0
"""HTTP requests of probes and lifecycle hooks to a pod: without proxies, certificates are not verified."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from kubeloop import KUBERNETES_VERSION
from kubeloop.api.generated.core_v1 import Container, HTTPGetAction
from kubeloop.http.client.connection import HttpClientConnection
from kubeloop.http.client.messages import ConnectionFailure, ResponseHead, encode_request

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 10
_BODY_BYTES = 10 << 10


class HttpActionError(Exception):
    """Raised if a request has no response; the message is shown to users."""


class UnknownPortError(HttpActionError):
    """Raised for the name of a port that the container does not define."""


class ActionResponse(NamedTuple):
    """Response at the end of local redirects."""

    status: int
    body: bytes


def resolve_port(port: int | str, container: Container) -> int:
    """Return the number of a port. Raises `UnknownPortError` for a name that the container does not define."""
    if isinstance(port, int) or port.isdigit():
        return int(port)
    found = next((one.container_port for one in container.ports if one.name == port), None)
    if found is None:
        raise UnknownPortError(f"couldn't find port: {port} in container: {container.name}")
    return found


def url_of(action: HTTPGetAction, container: Container, pod_ip: str) -> str:
    """Return the URL of an action. Raises `HttpActionError`."""
    host = action.host or pod_ip
    where = f"[{host}]" if ":" in host else host
    path = action.path if action.path.startswith("/") else f"/{action.path}"
    return f"{(action.scheme or 'HTTP').lower()}://{where}:{resolve_port(action.port, container)}{path}"


def headers_of(action: HTTPGetAction, purpose: str) -> dict[str, str]:
    """Return the headers of an action; `purpose` is part of the default user agent."""
    version = ".".join(KUBERNETES_VERSION.split(".")[:2])
    headers = {"User-Agent": f"kube-{purpose}/{version}", "Accept": "*/*"}
    headers |= {one.name.title(): one.value for one in action.http_headers}
    return {name: value for name, value in headers.items() if value or name != "Accept"}


async def get(url: str, headers: Mapping[str, str]) -> ActionResponse:
    """Send a GET request and follow redirects on the same host. Raises `HttpActionError`."""
    host = urlsplit(url).hostname
    for _ in range(_MOST_REDIRECTS):
        head, body = await _exchange(url, headers)
        target = urljoin(url, head.headers.get("location", ""))
        if head.status not in _REDIRECTS or urlsplit(target).hostname != host:
            return ActionResponse(head.status, body)
        url = target
    raise HttpActionError(f'Get "{url}": stopped after {_MOST_REDIRECTS} redirects')


async def _exchange(url: str, headers: Mapping[str, str]) -> tuple[ResponseHead, bytes]:
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    sent = {"Host": parts.netloc, **headers, "Connection": "close"}
    loop = asyncio.get_running_loop()
    try:
        _, connection = await loop.create_connection(
            lambda: HttpClientConnection(_error_of, may_upgrade=False),
            parts.hostname or "",
            port,
            ssl=_unverified_tls() if is_tls else None,
        )
    except OSError as error:
        raise HttpActionError(f'Get "{url}": {dial_error(parts.netloc, error)}') from None
    try:
        head = await connection.exchange(encode_request("GET", target, sent.items()))
        body = await connection.read_piece()
        return head, body[:_BODY_BYTES]
    except HttpActionError as error:
        raise HttpActionError(f'Get "{url}": {error}') from None
    finally:
        connection.abort()


def dial_error(address: str, error: OSError) -> str:
    """Return the message about a connection that could not be made, with the words of the system."""
    why = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error)
    return f"dial tcp {address}: connect: {why.lower()}"


def _error_of(failure: ConnectionFailure) -> Exception:
    return HttpActionError(failure.detail or (str(failure.cause) if failure.cause else "EOF"))


def _unverified_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
