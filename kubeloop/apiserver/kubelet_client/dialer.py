"""Requests to kubelets on behalf of clients: logs, connections to containers, and proxied requests."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.node_calls import NodeConnectionRefused, PodConnections, PodLogOptions, PodStreamRequest
from kubeloop.apiserver.aggregator.connection import RemoteConnection, RemoteUnreachable, ResponseHead
from kubeloop.apiserver.aggregator.endpoints import HostPort
from kubeloop.apiserver.aggregator.proxy_identity import forwarded_headers
from kubeloop.apiserver.aggregator.responses import proxied_response
from kubeloop.apiserver.kubelet_client.kubelet_address import address_of, log_target, stream_target
from kubeloop.apiserver.kubelet_client.kubelet_tls import KubeletClientConfig, KubeletDialer
from kubeloop.apiserver.kubelet_client.sessions import KubeletSession
from kubeloop.http import Request, Response

_HEAD_SECONDS: Final = 30.0  # seconds within which a response has to begin
_LONGEST_REFUSAL: Final = 50_000
_LARGEST_PAGE: Final = 16 << 20
_LOGS: Final = "pods/log"
_COMMANDS: Final = "v4.channel.k8s.io"
_PORTS: Final = "portforward.k8s.io"
_UNSAFE: Final = str.maketrans({"\r": " ", "\n": " "})

FindNode = Callable[[str], Node | None]
Made = TypeVar("Made")


class KubeletClient:
    """Client of all kubelets; each request has its own connection."""

    def __init__(self, find: FindNode, config: KubeletClientConfig) -> None:
        self._find = find
        self._config = config
        self._trust = KubeletDialer(config)

    async def logs(self, pod: Pod, container: str, options: PodLogOptions) -> AsyncIterator[bytes]:
        """Yield a container's log."""
        node, address = self._located(pod.spec.node_name)
        target = log_target(pod, container, options)
        try:
            connection, head = await self._asked(node, address, _get(address, target), insecure=options.insecure)
        except RemoteUnreachable as error:
            raise errors.ApiError(f'Get "https://{address}{target}": {error}') from None
        try:
            if not 200 <= head.status <= 206:
                raise log_error(head.status, await _read_prefix(connection), pod.metadata.name)
            async for piece in connection.pieces():
                yield piece
        except RemoteUnreachable as error:
            raise errors.ApiError(str(error)) from None
        finally:
            connection.close()

    async def opened(self, pod: Pod, container: str, wanted: PodStreamRequest) -> PodConnections:
        """Open an exec, attach or portforward connection."""
        node, address = self._located(pod.spec.node_name)
        request = _upgrade(address, stream_target(pod, container, wanted), wanted)
        try:
            connection, head = await self._asked(node, address, request)
        except RemoteUnreachable as error:
            raise errors.ApiError(f"error dialing backend: {error}") from None
        if head.status == 101:
            return KubeletSession(connection, wanted)
        try:
            if head.status < 400:
                raise errors.ApiError(f"invalid upgrade response: status code {head.status}")
            raise NodeConnectionRefused(head.status, await _read_prefix(connection), head.text("content-type"))
        finally:
            connection.close()

    async def text(self, name: str, target: str, seconds: float) -> str:
        """Return a page of a node within a timeout in seconds; raises an ApiError."""
        node, address = self._located(name)
        try:
            async with asyncio.timeout(seconds):
                connection, head = await self._asked(node, address, _get(address, target))
                try:
                    body = await _read_prefix(connection, _LARGEST_PAGE)
                finally:
                    connection.close()
        except (RemoteUnreachable, TimeoutError) as error:
            raise errors.ApiError(f'Get "https://{address}{target}": {str(error) or "timeout"}') from None
        if head.status != 200:
            raise errors.ApiError(f'Get "https://{address}{target}": bad status code {head.status}')
        return body.decode("utf-8", "replace")

    async def proxy(self, request: Request, name: str, path: str) -> Response:
        """Forward a client's request to a node and return its response, which may be an upgrade."""
        node, address = self._located(name)
        if not (self._config.knows_nodes or is_proxyable_address(address.host)):
            raise errors.bad_request("address not allowed")
        target = f"{path or '/'}?{request.query}" if request.query else path or "/"
        try:
            sent = _forwarded_request(request, address, target)
            connection, head = await self._asked(node, address, sent, bodyless=request.method == "HEAD")
        except RemoteUnreachable as error:
            if request.upgrade:
                raise errors.ApiError(f"error dialing backend: {error}") from None
            raise errors.service_unavailable(f"error trying to reach service: {error}") from None
        try:
            return await proxied_response(connection, head, RemoteConnection.close)
        except RemoteUnreachable as error:
            connection.close()
            raise errors.service_unavailable(f"error trying to reach service: {error}") from None

    def _located(self, name: str) -> tuple[Node, HostPort]:
        node = self._find(name)
        if node is None:
            raise errors.not_found("", "nodes", name)
        return node, address_of(node, self._config.address_types)

    async def _asked(
        self, node: Node, address: HostPort, request: bytes, *, insecure: bool = False, bodyless: bool = False
    ) -> tuple[RemoteConnection, ResponseHead]:
        """Connect, send a request and return the connection with the response's head."""

        async def ask() -> tuple[RemoteConnection, ResponseHead]:
            connection = await self._trust.connect(node, address, insecure=insecure)
            try:
                return connection, await connection.ask(request, bodyless=bodyless)
            except BaseException:
                connection.close()
                raise

        return await _with_timeout(ask())


async def _with_timeout(work: Coroutine[Any, Any, Made]) -> Made:
    if asyncio.current_task() is None:
        await asyncio.sleep(0)  # a handler has no task until it first waits, and a timeout needs one
    try:
        async with asyncio.timeout(_HEAD_SECONDS):
            return await work
    except TimeoutError:
        raise RemoteUnreachable("net/http: timeout awaiting response headers") from None


def log_error(status: int, body: bytes, pod: str) -> errors.ApiError:
    """Return the client's error for a failed log request."""
    said = body.decode("utf-8", "replace")
    if status == 500:
        return errors.internal_error(said)
    if status == 400:
        return errors.bad_request(said)
    generic = errors.generic_server_response(status, said)
    about = errors.StatusDetails(name=pod, kind=_LOGS)
    # Upstream leaves the verb empty.
    return type(generic)(f"{generic.message} ( {_LOGS} {pod})", about, code=generic.code)


def is_proxyable_address(host: str) -> bool:
    """Return True unless the address is unspecified, loopback, multicast or link-local; names count as True."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return True
    return not (found.is_unspecified or found.is_loopback or found.is_multicast or found.is_link_local)


async def _read_prefix(connection: RemoteConnection, most: int = _LONGEST_REFUSAL) -> bytes:
    said = bytearray()
    async for piece in connection.pieces():
        said += piece
        if len(said) >= most:
            break
    return bytes(said[:most])


def _get(address: HostPort, target: str) -> bytes:
    return _bytes_of("GET", target, (("Host", str(address)), ("Accept", "*/*")))


def _upgrade(address: HostPort, target: str, wanted: PodStreamRequest) -> bytes:
    protocol = _PORTS if wanted.how == "portforward" else _COMMANDS
    upgrade = (("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", protocol))
    return _bytes_of("POST", target, (("Host", str(address)), *upgrade, ("Content-Length", "0")))


def _forwarded_request(request: Request, address: HostPort, target: str) -> bytes:
    headers = [("Host", str(address)), *forwarded_headers(request, "")]
    if request.body or request.method in ("POST", "PUT", "PATCH"):
        headers.append(("Content-Length", str(len(request.body))))
    return _bytes_of(request.method, target, headers) + request.body


def _bytes_of(method: str, target: str, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value.translate(_UNSAFE)}" for name, value in headers)]
    return "\r\n".join((*lines, "", "")).encode("utf-8", "surrogateescape")
