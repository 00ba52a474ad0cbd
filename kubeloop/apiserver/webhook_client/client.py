# SPDX-License-Identifier: Apache-2.0
"""HTTP client of one server: pooled connections, complete responses, one timeout for everything."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable, dial, dial_through
from kubeloop.apiserver.aggregator.endpoints import HostPort, ServiceUnresolvable
from kubeloop.apiserver.aggregator.idle_connections import IdleConnectionPool
from kubeloop.http.client import HttpClientConnection, encode_request
from kubeloop.http.client.proxy import InvalidProxy, Proxy, proxy_for

# Maximum response size: several times that of a request to this server.
_MAX_RESPONSE_BYTES: Final = 16 << 20
_LATE: Final = "context deadline exceeded"

Headers = Iterable[tuple[str, str]]


class WebhookHttpResponse(NamedTuple):
    """Response: status, headers and body."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class WebhookHttpClient:
    """Client of one server; `address` resolves it per request (raises `ServiceUnresolvable`), `trust` runs once.

    `trust` returns None for plain HTTP. `environ` may name a proxy (HTTPS_PROXY, HTTP_PROXY, NO_PROXY), as for Go's
    client. TLS is with the server, through the proxy's tunnel.
    """

    def __init__(
        self,
        host: str,
        address: Callable[[], HostPort],
        trust: Callable[[], ssl.SSLContext | None],
        server_name: str,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.host = host  # with the port, as in the Host header
        self._address = address
        self._make_ssl_context = trust
        self._server_name = server_name
        self._environ = environ
        self._context: ssl.SSLContext | None = None
        self._idle = IdleConnectionPool()

    async def request(
        self, method: str, target: str, headers: Headers, body: bytes, seconds: float
    ) -> WebhookHttpResponse:
        """Send a request and return the complete response.

        Raises `RemoteUnreachable`, with the message of Go's client, if there is none within `seconds`.
        """
        sent = encode_request(method, target, (("Host", self.host), *headers), body)
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(sent, seconds)
        except TimeoutError:
            raise RemoteUnreachable(_LATE) from None
        except ServiceUnresolvable as error:
            raise RemoteUnreachable(str(error)) from None

    def close(self) -> None:
        """Close the idle connections."""
        self._idle.close()

    async def _exchange(self, sent: bytes, seconds: float) -> WebhookHttpResponse:
        address = self._address()
        reused = self._idle.take(address)
        if reused is not None:
            try:
                return await self._send(address, reused, sent)
            except RemoteUnreachable as error:
                # It closed the idle connection before it received anything; the request may be sent again.
                if str(error) != "EOF":
                    raise
        return await self._send(address, await self._dial(address, seconds), sent)

    async def _dial(self, address: HostPort, seconds: float) -> HttpClientConnection:
        context = self._ssl_context()
        proxy = self._proxy(address, "http" if context is None else "https")
        if proxy is None:
            return await dial(*address, context, self._server_name, seconds)
        return await dial_through(proxy, address, context, self._server_name, seconds)

    def _proxy(self, address: HostPort, scheme: str) -> Proxy | None:
        """Return the proxy for the resolved address, as upstream decides since endpoints are resolved per request."""
        try:
            return proxy_for(f"{scheme}://{address}", "", self._environ)
        except InvalidProxy as error:
            raise RemoteUnreachable(f"proxyconnect tcp: {error}") from None

    async def _send(self, address: HostPort, connection: HttpClientConnection, sent: bytes) -> WebhookHttpResponse:
        try:
            head = await connection.exchange(sent)
            body = await connection.read_body(_MAX_RESPONSE_BYTES)
        except BaseException:
            connection.abort()
            raise
        self._idle.put(address, connection)
        return WebhookHttpResponse(head.status, head.fields, body)

    def _ssl_context(self) -> ssl.SSLContext | None:
        if self._context is None:
            try:
                self._context = self._make_ssl_context()
            except (OSError, ValueError):  # ssl.SSLError is an OSError
                raise RemoteUnreachable(
                    "unable to load root certificates: unable to parse bytes as PEM block"
                ) from None
        return self._context
