"""HTTP transport to an extender: JSON request by POST, JSON response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from kubeloop.api.scalars.duration import parse_duration
from kubeloop.client.config.credentials import NOBODY
from kubeloop.client.errors import ClientError
from kubeloop.client.http.connection import Connection
from kubeloop.client.http.dialer import Address, dial
from kubeloop.client.http.messages import HttpRequest
from kubeloop.client.http.pool import Pool
from kubeloop.client.http.tls import Contexts
from kubeloop.scheduler.config.extender_settings import DEFAULT_SECONDS, ExtenderSettings, server_of
from kubeloop.scheduler.extenders.extender import ExtenderFailed

_NANOSECONDS = 1_000_000_000


class ExtenderCalls:
    """HTTP connections to an extender."""

    def __init__(self, settings: ExtenderSettings) -> None:
        config = server_of(settings)
        parts = urlsplit(config.server)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        self._url = settings.url_prefix.rstrip("/")
        self._path = parts.path.rstrip("/")
        self._host = parts.netloc
        self._address = Address(parts.hostname or "", port, server_name=config.server_name)
        self._contexts = Contexts(config) if parts.scheme == "https" else None
        self._seconds = parse_duration(settings.http_timeout or "0s") / _NANOSECONDS or DEFAULT_SECONDS
        self._pool = Pool(self._connect)

    async def ask(self, verb: str, question: Any) -> Any:
        """Post a request and return the decoded response. Raises `ExtenderFailed`."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        request = HttpRequest("POST", f"{self._path}/{verb}", headers, msgspec.json.encode(question))
        try:
            async with asyncio.timeout(self._seconds):
                status, body = await self._exchange(request.encode((("Host", self._host),)))
        except TimeoutError:
            raise ExtenderFailed(f'Post "{self._url}/{verb}": context deadline exceeded') from None
        except (ClientError, OSError) as error:
            raise ExtenderFailed(f'Post "{self._url}/{verb}": {error}') from None
        if status != 200:
            raise ExtenderFailed(f"failed {verb} with extender at URL {self._url}/{verb}, code {status}")
        try:
            return msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise ExtenderFailed(f"the answer of {self._url}/{verb} is no JSON: {error}") from None

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.close()

    async def _exchange(self, data: bytes) -> tuple[int, bytes]:
        connection, _ = await self._pool.acquire()
        try:
            head = await connection.exchange(data, streamed=False)
            return head.status, await connection.whole_body()
        finally:
            self._pool.release(connection)

    async def _connect(self, on_lost: Callable[[Connection], None]) -> Connection:
        return await dial(self._address, self._contexts.current(NOBODY) if self._contexts else None, on_lost)
