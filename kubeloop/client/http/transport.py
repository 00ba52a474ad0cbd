# SPDX-License-Identifier: Apache-2.0
"""HTTP(S) transport to any Kubernetes API server."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import msgspec

from kubeloop.api import errors
from kubeloop.api.kinds import Resource
from kubeloop.api.requests import Call, WatchEvent
from kubeloop.api.responses import decode_response
from kubeloop.client.config.credentials import NO_IDENTITY, ClientIdentity, credentials_of
from kubeloop.client.config.server_config import ImpersonationConfig, ServerConfig
from kubeloop.client.errors import CallTimeout, ConfigError, ConnectionLost, ProtocolError, TransportError
from kubeloop.client.http.dialer import ServerAddress, dial
from kubeloop.client.http.lines import WatchDecoder
from kubeloop.client.http.messages import LARGE, HttpRequest, decode_large_list, request_of
from kubeloop.client.http.pool import ConnectionPool
from kubeloop.client.interner import Interner
from kubeloop.client.metrics import ClientMetrics, NoClientMetrics
from kubeloop.clock import Clock
from kubeloop.http.client import HttpClientConnection, ResponseHead
from kubeloop.http.client.proxy import InvalidProxy, is_loopback, proxy_for

if TYPE_CHECKING:
    import ssl

    from kubeloop.client.http.tls import TLSContextCache

log = logging.getLogger(__name__)

# HTTP/1.1 needs a connection for each call that is under way; more than this many wait their turn. Watches don't count.
_MAX_CONCURRENT_CALLS = 64


class HttpTransport:
    """Transport to one server over as many connections as needed."""

    def __init__(
        self,
        config: ServerConfig,
        clock: Clock,
        *,
        environ: Mapping[str, str] | None = None,
        metrics: ClientMetrics | None = None,
        on_warning: Callable[[str], None] = log.warning,
    ) -> None:
        parts = urlsplit(config.server)
        host = parts.hostname or ""
        try:
            proxy = proxy_for(config.server, config.proxy_url, os.environ if environ is None else environ)
        except InvalidProxy as error:
            raise ConfigError(str(error)) from None
        port = parts.port or (443 if parts.scheme == "https" else 80)
        self._address = ServerAddress(host, port, server_name=config.server_name, proxy=proxy)
        self._prefix = parts.path.rstrip("/")
        self._config = config
        self._clock = clock
        self._metrics = metrics or NoClientMetrics()
        self._on_warning = on_warning
        self._credentials = credentials_of(config, clock)
        self._identity = NO_IDENTITY
        self._is_tls = parts.scheme == "https"
        self._contexts: TLSContextCache | None = None
        self._pool = ConnectionPool(self._connect)
        self._interners: dict[Resource, Interner] = {}
        self._semaphore = asyncio.Semaphore(_MAX_CONCURRENT_CALLS)
        self._headers = [("Host", parts.netloc.rpartition("@")[2]), *impersonation_headers(config.impersonation)]
        # Compression costs the server more than a local network saves.
        if config.compression and not is_loopback(host):
            self._headers.append(("Accept-Encoding", "gzip"))

    @property
    def host(self) -> str:
        """Authority of the server, for metrics."""
        return self._address.authority

    async def call(self, call: Call) -> Any:
        """Make a call and decode its response."""
        body = await self._fetch(request_of(call), call.verb)
        try:
            if call.verb == "list" and len(body) > LARGE:
                return await decode_large_list(body, call, self._interner_of(call.resource))
            return decode_response(body, call)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ProtocolError(f"the response is not a {call.resource.kind}: {error}") from None

    async def document(self, path: str, user_agent: str = "kubeloop") -> Any:
        """Return the JSON document at a non-resource path, such as discovery; raises as `call` does."""
        request = HttpRequest("GET", path, {"Accept": "application/json", "User-Agent": user_agent})
        body = await self._fetch(request, "get")
        try:
            return msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise ProtocolError(f"the response to {path} is not JSON: {error}") from None

    async def watch(self, call: Call) -> AsyncIterator[Sequence[WatchEvent]]:
        """Yield batches of watch events."""
        lines = WatchDecoder(call, self._interner_of(call.resource))
        async with self._open_stream(request_of(call), call.timeout) as connection:
            while piece := await connection.read_piece():
                if batch := lines.feed(piece):
                    yield batch
                if lines.failure is not None:
                    raise lines.failure
            if not lines.is_between_events:
                raise ConnectionLost("the watch ended in the middle of an event")

    def is_in_process(self, resource: Resource) -> bool:
        """Return False: a half-open connection becomes silent unnoticed."""
        return False

    def discovery_version(self) -> object | None:
        """Return None: only discovery finds changes of the served kinds."""
        return None

    async def stream(self, call: Call) -> AsyncIterator[bytes]:
        """Yield a response body in the pieces received, such as a followed log."""
        async with self._open_stream(request_of(call), call.timeout) as connection:
            while piece := await connection.read_piece():
                yield piece

    async def stream_path(self, path: str, seconds: float) -> AsyncIterator[bytes]:
        """Yield the body at a non-resource path in pieces; its head must arrive within `seconds`."""
        request = HttpRequest("GET", path, {"Accept": "*/*", "User-Agent": "kubeloop"})
        async with self._open_stream(request, seconds) as connection:
            while piece := await connection.read_piece():
                yield piece

    def _interner_of(self, resource: Resource) -> Interner:
        """Return the interner of a resource, common to all its lists and watches."""
        return self._interners.setdefault(resource, Interner())

    async def close(self) -> None:
        """Close the credentials and all connections."""
        self._credentials.close()
        await self._pool.close()

    # One request.

    async def _fetch(self, request: HttpRequest, verb: str) -> bytes:
        """Return the whole body of a successful response."""
        async with self._semaphore:
            started = self._clock.monotonic()
            connection, head, identity = await self._send(request)
            try:
                body = await connection.read_body()
            finally:
                self._pool.release(connection)
            if head.status == 401 and await self._is_outdated(identity):
                return await self._fetch_again(request)
        self._metrics.duration(verb, self._clock.monotonic() - started)
        self._metrics.sizes(verb, len(request.body), len(body))
        return self._check_status(head, body)

    async def _fetch_again(self, request: HttpRequest) -> bytes:
        connection, head, _ = await self._send(request)
        try:
            return self._check_status(head, await connection.read_body())
        finally:
            self._pool.release(connection)

    @asynccontextmanager
    async def _open_stream(self, request: HttpRequest, seconds: float | None) -> AsyncIterator[HttpClientConnection]:
        """Provide a connection to read a successful body from; only its beginning has a timeout."""
        try:
            async with asyncio.timeout(seconds):
                connection, head, identity = await self._send(request)
        except TimeoutError as error:
            if isinstance(error, TransportError):
                raise
            raise CallTimeout(f"{request.method} {request.target}: no response within {seconds:g} s") from None
        try:
            if not head.is_success:
                async with asyncio.timeout(seconds):
                    body = await _error_body(connection)
                if head.status == 401:
                    self._credentials.invalidate(identity)
                self._check_status(head, body)
            self._warn(head)
            yield connection
        finally:
            self._pool.release(connection)

    async def _send(self, request: HttpRequest) -> tuple[HttpClientConnection, ResponseHead, ClientIdentity]:
        """Send on an idle connection or a new one; a read on a stale connection is sent once more."""
        identity = await self._credentials.get_identity()
        if identity.key != self._identity.key:
            self._pool.drop_idle()
        self._identity = identity
        data = self._encode(request, identity)
        connection, reused = await self._pool.acquire()
        try:
            head = await self._exchange(connection, request, data)
        except ConnectionLost:
            if not reused or connection.received_bytes or request.method != "GET":
                raise
            connection, _ = await self._pool.acquire(fresh=True)
            head = await self._exchange(connection, request, data)
        return connection, head, identity

    async def _exchange(self, connection: HttpClientConnection, request: HttpRequest, data: bytes) -> ResponseHead:
        try:
            if request.guard is not None:  # no await between here and the socket
                request.guard()
            head = await connection.exchange(data)
        except BaseException as error:
            connection.abort()
            if isinstance(error, TransportError):
                self._metrics.request(request.method, "<error>")
            raise
        self._metrics.request(request.method, str(head.status))
        return head

    def _encode(self, request: HttpRequest, identity: ClientIdentity) -> bytes:
        more = self._headers
        if identity.token:
            more = [*more, ("Authorization", f"Bearer {identity.token}")]
        if self._prefix:
            request = request.with_prefix(self._prefix)
        return request.encode(more)

    async def _connect(self, on_lost: Callable[[HttpClientConnection], None]) -> HttpClientConnection:
        return await dial(self._address, self._tls(), on_lost)

    def _tls(self) -> ssl.SSLContext | None:
        if not self._is_tls:
            return None
        if self._contexts is None:
            from kubeloop.client.http.tls import TLSContextCache

            self._contexts = TLSContextCache(self._config)
        return self._contexts.get(self._identity)

    async def _is_outdated(self, identity: ClientIdentity) -> bool:
        """Return True if there are newer credentials than those the server rejected."""
        self._credentials.invalidate(identity)
        return await self._credentials.get_identity() != identity

    def _check_status(self, head: ResponseHead, body: bytes) -> bytes:
        """Return the body of a success; raises the matching error otherwise."""
        self._warn(head)
        if head.is_success:
            return body
        raise error_of(head, body)

    def _warn(self, head: ResponseHead) -> None:
        for text in head.warnings():
            self._on_warning(text)


async def _error_body(connection: HttpClientConnection) -> bytes:
    pieces = []
    while piece := await connection.read_piece():
        pieces.append(piece)
    return b"".join(pieces)


def error_of(head: ResponseHead, body: bytes) -> errors.ApiError:
    """Return the error of a response: its Status, or a generic one for its code."""
    try:
        status = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        return errors.generic_server_response(
            head.status, body[:2048].decode("utf-8", "replace").strip(), head.retry_after
        )
    try:
        error = errors.from_status({"code": head.status, **status})
    except msgspec.ValidationError:
        return errors.generic_server_response(head.status, str(status.get("message", "")), head.retry_after)
    if head.retry_after and not error.retry_after_seconds:
        details = error.details or errors.StatusDetails()
        return error.with_details(msgspec.structs.replace(details, retry_after_seconds=head.retry_after))
    return error


def impersonation_headers(whom: ImpersonationConfig) -> list[tuple[str, str]]:
    """Return the impersonation headers."""
    headers = [("Impersonate-User", whom.user)] if whom.user else []
    if whom.uid:
        headers.append(("Impersonate-Uid", whom.uid))
    headers += [("Impersonate-Group", group) for group in whom.groups]
    for key, values in whom.extra.items():
        name = "Impersonate-Extra-" + quote(key, safe="!#$&'*+-.^_`|~")
        headers += [(name, value) for value in values]
    return headers
