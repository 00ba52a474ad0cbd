# SPDX-License-Identifier: Apache-2.0
"""Client of a webhook that a kubeconfig file names: posts reviews, with a deadline for each request and retries."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec

from kubeloop.api import errors
from kubeloop.api.scalars.duration import SECOND, format_duration
from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable
from kubeloop.apiserver.aggregator.endpoints import HostPort
from kubeloop.apiserver.webhook_client.client import WebhookHttpClient, WebhookHttpResponse
from kubeloop.apiserver.webhook_client.credentials import WebhookUsers
from kubeloop.clock import Clock

REQUEST_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 0.5
_FACTOR: Final = 1.5
_JITTER: Final = 0.2
_ATTEMPTS: Final = 5
_PORTS: Final = {"https": 443, "http": 80}
_HEADERS: Final = (
    ("Content-Type", "application/json"),
    ("Accept", "application/json, */*"),
    ("User-Agent", "kube-apiserver"),
)


class WebhookFailure(Exception):
    """Error for a webhook without usable response; a transient one may go away by itself."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


class ReviewCredentials(NamedTuple):
    """TLS context with the client certificate (None for plain HTTP), and the value of the Authorization header."""

    context: ssl.SSLContext | None
    authorization: str = ""


class KubeconfigEndpoint(Protocol):
    """Server and user of a kubeconfig file."""

    @property
    def url(self) -> str:
        """URL of the server."""

    @property
    def server_name(self) -> str:
        """Name in the server's certificate, if it is not the host of the URL."""

    async def credentials(self) -> ReviewCredentials:
        """Return the current credentials; the same context unless a file has changed."""


class KubeconfigReader(Protocol):
    """Reader of the kubeconfig files of webhooks."""

    def endpoint(self, path: Path) -> KubeconfigEndpoint:
        """Return the server and the user of a file's current context; raises ValueError."""

    def users(self, path: Path) -> WebhookUsers:
        """Return all users of a file; raises ValueError."""


class ReviewClient:
    """Client of one webhook."""

    def __init__(
        self,
        endpoint: KubeconfigEndpoint,
        clock: Clock,
        seconds: float = REQUEST_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        parts = urlsplit(endpoint.url)
        self._endpoint = endpoint
        self._clock = clock
        self._seconds = seconds
        self._retry_seconds = retry_seconds
        self._host = parts.netloc
        self._address = HostPort(parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 443))
        self._target = f"{parts.path or '/'}?timeout={format_duration(int(seconds * SECOND))}"
        self._url = f"{parts.scheme}://{parts.netloc}{self._target}"
        self._http: WebhookHttpClient | None = None
        self._context: ssl.SSLContext | None = None

    async def post(self, review: Mapping[str, Any]) -> Any:
        """Post a document and return the one in the response, of the same kind; raises WebhookFailure."""
        body = msgspec.json.encode(review)
        for delay in self._delays():
            try:
                return _document(await self._send(body), review)
            except WebhookFailure as failure:
                if not failure.transient or delay is None:
                    raise
            await asyncio.sleep(delay)
        raise AssertionError("the last attempt returns or raises")

    async def deliver(self, document: Mapping[str, Any]) -> None:
        """Post a document, and try again after any failure; the response's body is ignored. Raises WebhookFailure."""
        body = msgspec.json.encode(document)
        for delay in self._delays():
            try:
                response = await self._send(body)
                if 200 <= response.status <= 206:
                    return
                raise _failure_of(response)
            except WebhookFailure:
                if delay is None:
                    raise
            await asyncio.sleep(delay)

    def close(self) -> None:
        """Close the idle connections."""
        if self._http is not None:
            self._http.close()

    def _delays(self) -> Iterator[float | None]:
        """Yield the seconds to wait after each attempt; None after the last."""
        for attempt in range(_ATTEMPTS - 1):
            yield self._retry_seconds * _FACTOR**attempt * (1 + _JITTER * self._clock.random().random())
        yield None

    async def _send(self, body: bytes) -> WebhookHttpResponse:
        try:
            context, authorization = await self._endpoint.credentials()
        except ValueError as error:
            raise WebhookFailure(f'Post "{self._url}": {error}') from None
        headers = (*_HEADERS, ("Authorization", authorization)) if authorization else _HEADERS
        try:
            return await self._client(context).request("POST", self._target, headers, body, self._seconds)
        except RemoteUnreachable as error:
            raise WebhookFailure(
                f'Post "{self._url}": {error}', transient="connection reset by peer" in str(error)
            ) from None

    def _client(self, context: ssl.SSLContext | None) -> WebhookHttpClient:
        if self._http is None or context is not self._context:
            self.close()
            self._context = context
            server_name = self._endpoint.server_name or self._address.host
            self._http = WebhookHttpClient(self._host, lambda: self._address, lambda: context, server_name)
        return self._http


def _document(response: WebhookHttpResponse, review: Mapping[str, Any]) -> Any:
    if not 200 <= response.status <= 206:
        raise _failure_of(response)
    try:
        found = msgspec.json.decode(response.body)
    except msgspec.MsgspecError as error:
        raise WebhookFailure(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(found, dict):
        raise WebhookFailure("couldn't get version/kind; json parse error: the response is no object")
    for field in ("kind", "apiVersion"):
        if found.get(field, review[field]) != review[field]:
            said = f"{found.get('apiVersion', '')}, {found.get('kind', '')}"
            raise WebhookFailure(f"expected {review['apiVersion']}, {review['kind']}, got {said}")
    return found


def _failure_of(response: WebhookHttpResponse) -> WebhookFailure:
    """Return the failure for an error status, with the message of client-go."""
    text = response.body.decode("utf-8", "replace")
    error = errors.generic_server_response(response.status, text.strip())
    reason, message = error.reason, error.message
    try:
        status = msgspec.json.decode(response.body)
    except msgspec.MsgspecError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    has_delay = any(name.lower() == "retry-after" for name, _ in response.headers)
    return WebhookFailure(message, transient=has_delay or reason in ("InternalError", "Timeout", "TooManyRequests"))
