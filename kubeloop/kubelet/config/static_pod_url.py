# SPDX-License-Identifier: Apache-2.0
"""Static pods of a URL (`staticPodURL`): read every twenty seconds, kept while it cannot be read or is malformed."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import msgspec

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.http.client.connection import HttpClientConnection
from kubeloop.http.client.messages import ConnectionFailure, FailureKind, InvalidRequestHead, encode_request
from kubeloop.kubelet.config.static_pods import parse_manifest

_REQUEST_SECONDS = 10.0
_MOST_BYTES = 10 << 20
_MOST_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LOUD_FAILURES = 3  # later ones in a row are logged for debugging only

log = logging.getLogger(__name__)


class StaticPodURLError(Exception):
    """Raised for a URL that cannot be read, or whose content has no pods."""


class PodURL(NamedTuple):
    """URL with the headers of requests to it, and the seconds between two of them."""

    url: str
    headers: Mapping[str, tuple[str, ...]]
    seconds: float


class StaticPodURLSource:
    """Pods of a URL; `on_change` is called when they have changed."""

    def __init__(self, settings: PodURL, on_change: Callable[[], None]) -> None:
        self._settings = settings
        self._on_change = on_change
        self._pods: list[Pod] | None = None
        self._data = b""
        self._failures = 0

    @property
    def location(self) -> str:
        """URL of the pods."""
        return self._settings.url

    @property
    def pods(self) -> list[Pod] | None:
        """Pods as last read; None before the first time."""
        return self._pods

    async def run(self) -> None:
        """Read the URL forever."""
        while True:
            await self.check()
            await asyncio.sleep(self._settings.seconds)

    async def check(self) -> None:
        """Read the URL; a failure is logged, and pods read before stay."""
        try:
            await self._read()
        except StaticPodURLError as error:
            level = logging.INFO if self._failures <= _LOUD_FAILURES else logging.DEBUG
            last = ". Dropping verbosity of this message" if self._failures == _LOUD_FAILURES else ""
            log.log(level, "Failed to read pods from URL%s: %s", last, error)
            self._failures += 1
            return
        if self._failures:
            log.info("Successfully read pods from URL")
            self._failures = 0

    async def _read(self) -> None:
        url = self._settings.url
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                status, data = await _get(url, self._settings.headers)
        except TimeoutError:
            raise StaticPodURLError(f'Get "{url}": context deadline exceeded') from None
        if status != HTTPStatus.OK:
            raise StaticPodURLError(f"{url}: {_status_line(status)}")
        if not data:
            self._set([])
            raise StaticPodURLError(f"zero-length data received from {url}")
        if data == self._data:
            return
        self._data = data
        try:
            self._set(parse_pods(data))
        except ValueError as error:
            raise StaticPodURLError(f"{url}: received '{data.decode(errors='replace')}', but {error}") from None

    def _set(self, pods: list[Pod]) -> None:
        if pods != self._pods:
            self._pods = pods
            self._on_change()


def parse_pods(data: bytes) -> list[Pod]:
    """Return the pod, or the pods of a PodList, of JSON or YAML. Raises `ValueError`."""
    import yaml  # slow to import, so it is imported only when needed

    try:
        document: Any = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"couldn't parse as single ({error}) or multiple pods ({error})") from None
    try:
        if isinstance(document, Mapping) and document.get("kind") in ("PodList", "List"):
            return [parse_manifest({"kind": "Pod", **item}) for item in document.get("items") or ()]
        return [parse_manifest(document)]
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        raise ValueError(f"couldn't parse as single or multiple pods ({error})") from None


async def _get(url: str, headers: Mapping[str, tuple[str, ...]]) -> tuple[int, bytes]:
    """Return status and body at the end of redirects. Raises `StaticPodURLError`."""
    for _ in range(_MOST_REDIRECTS):
        status, target, body = await _exchange(url, headers)
        if status not in _REDIRECTS or not target:
            return status, body
        url = urljoin(url, target)
    raise StaticPodURLError(f'Get "{url}": stopped after {_MOST_REDIRECTS} redirects')


async def _exchange(url: str, headers: Mapping[str, tuple[str, ...]]) -> tuple[int, str, bytes]:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise StaticPodURLError(f'parse "{url}": {error}') from None
    if parts.scheme not in ("http", "https"):
        raise StaticPodURLError(f'Get "{url}": unsupported protocol scheme "{parts.scheme}"')
    fields = [(name, value) for name, values in headers.items() for value in values]
    target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    loop = asyncio.get_running_loop()
    connection = None
    try:
        _, connection = await loop.create_connection(
            lambda: HttpClientConnection(_error_of, may_upgrade=False), parts.hostname or "", port, ssl=tls
        )
        sent = [("Host", parts.netloc.rpartition("@")[2]), ("Connection", "close"), *fields]
        head = await connection.exchange(encode_request("GET", target, sent))
        return head.status, head.headers.get("location", ""), await connection.read_body(_MOST_BYTES)
    except (OSError, InvalidRequestHead, StaticPodURLError) as error:
        raise StaticPodURLError(f'Get "{url}": {error}') from None
    finally:
        if connection is not None:
            connection.abort()


def _error_of(failure: ConnectionFailure) -> Exception:
    if failure.kind is FailureKind.BODY_TOO_LARGE:
        return StaticPodURLError("the read limit is reached")
    return StaticPodURLError(failure.detail or (str(failure.cause) if failure.cause else "EOF"))


def _status_line(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
