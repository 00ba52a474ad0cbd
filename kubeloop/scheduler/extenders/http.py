# SPDX-License-Identifier: Apache-2.0
"""HTTP transport to an extender: JSON request by POST, JSON response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from kubeloop.api.scalars.duration import parse_duration
from kubeloop.client.config.credentials import NO_IDENTITY
from kubeloop.client.errors import ClientError
from kubeloop.client.http.dialer import ServerAddress, dial
from kubeloop.client.http.messages import HttpRequest
from kubeloop.client.http.pool import ConnectionPool
from kubeloop.client.http.tls import TLSContextCache
from kubeloop.http.client import HttpClientConnection
from kubeloop.scheduler.config.extender_settings import DEFAULT_SECONDS, ExtenderSettings, client_config_of
from kubeloop.scheduler.extenders.extender import ExtenderError

_NANOSECONDS = 1_000_000_000


class ExtenderHTTPTransport:
    """HTTP connections to an extender."""

    def __init__(self, settings: ExtenderSettings) -> None:
        config = client_config_of(settings)
        parts = urlsplit(config.server)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        self._url = settings.url_prefix.rstrip("/")
        self._path = parts.path.rstrip("/")
        self._host = parts.netloc
        self._address = ServerAddress(parts.hostname or "", port, server_name=config.server_name)
        self._contexts = TLSContextCache(config) if parts.scheme == "https" else None
        self._seconds = parse_duration(settings.http_timeout or "0s") / _NANOSECONDS or DEFAULT_SECONDS
        self._pool = ConnectionPool(self._connect)

    async def call(self, verb: str, question: Any) -> Any:
        """Post a request and return the decoded response. Raises `ExtenderError`."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        request = HttpRequest("POST", f"{self._path}/{verb}", headers, msgspec.json.encode(question))
        try:
            async with asyncio.timeout(self._seconds):
                status, body = await self._exchange(request.encode((("Host", self._host),)))
        except TimeoutError:
            raise ExtenderError(f'Post "{self._url}/{verb}": context deadline exceeded') from None
        except (ClientError, OSError) as error:
            raise ExtenderError(f'Post "{self._url}/{verb}": {error}') from None
        if status != 200:
            raise ExtenderError(f"failed {verb} with extender at URL {self._url}/{verb}, code {status}")
        try:
            return msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise ExtenderError(f"the response of {self._url}/{verb} is not JSON: {error}") from None

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.close()

    async def _exchange(self, data: bytes) -> tuple[int, bytes]:
        connection, _ = await self._pool.acquire()
        try:
            head = await connection.exchange(data)
            return head.status, await connection.read_body()
        finally:
            self._pool.release(connection)

    async def _connect(self, on_lost: Callable[[HttpClientConnection], None]) -> HttpClientConnection:
        return await dial(self._address, self._contexts.get(NO_IDENTITY) if self._contexts else None, on_lost)
