# SPDX-License-Identifier: Apache-2.0
"""Requests to kubelets on behalf of clients: logs, connections to containers, and proxied requests; dials pods."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.kubelet_requests import (
    NodeConnectionRefused,
    PodConnections,
    PodLogOptions,
    PodStreamRequest,
    PortConnection,
)
from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable, UnverifiedCertificate, dial, reason_of
from kubeloop.apiserver.aggregator.endpoints import HostPort
from kubeloop.apiserver.aggregator.proxy_identity import forwarded_headers
from kubeloop.apiserver.aggregator.responses import proxied_response
from kubeloop.apiserver.kubelet_client.kubelet_address import address_of, log_target, stream_target
from kubeloop.apiserver.kubelet_client.kubelet_tls import KubeletClientConfig, KubeletDialer
from kubeloop.apiserver.kubelet_client.proxyable_address import resolve_proxyable
from kubeloop.http import Request, Response
from kubeloop.http.client import HttpClientConnection, ResponseHead, encode_request
from kubeloop.metrics import MetricValue
from kubeloop.remotecommand.session import StreamSession, upgrade_request

_HEAD_SECONDS: Final = 30.0  # seconds within which a response has to begin
_LONGEST_REFUSAL: Final = 50_000
_LARGEST_PAGE: Final = 16 << 20
_MAX_PORT: Final = 65_535
_LONGEST_PORT: Final = len(str(_MAX_PORT))
_LOGS: Final = "pods/log"
_UNSAFE: Final = str.maketrans({"\r": " ", "\n": " ", "\0": " "})

FindNode = Callable[[str], Node | None]
Made = TypeVar("Made")
_DIAL_SECONDS = 10.0
_PIECE = 64 << 10


class NodePort(NamedTuple):
    """Port and scheme of a request that is forwarded to a node, as in `https:NAME:PORT`; empty for the kubelet's."""

    number: str = ""
    scheme: str = ""

    def parse(self) -> int:
        """Return the port; raises `RemoteUnreachable`."""
        text = self.number
        if not (text.isascii() and text.isdigit()):
            raise RemoteUnreachable(f"dial tcp: lookup tcp/{text}: unknown port")
        digits = text.lstrip("0") or "0"
        if len(digits) > _LONGEST_PORT or int(digits) > _MAX_PORT:
            raise RemoteUnreachable(f"dial tcp: address {text}: invalid port")
        return int(digits)


DEFAULT_NODE_PORT: Final = NodePort()


class KubeletClient:
    """Client of all kubelets; each request has its own connection."""

    def __init__(self, find: FindNode, config: KubeletClientConfig, log_tls_failures: MetricValue) -> None:
        self._find = find
        self._log_tls_failures = log_tls_failures  # requests for logs that failed because of a kubelet's certificate
        self._config = config
        self._dialer = KubeletDialer(config)

    async def logs(self, pod: Pod, container: str, options: PodLogOptions) -> AsyncIterator[bytes]:
        """Yield a container's log."""
        node, address = self._locate(pod.spec.node_name)
        target = log_target(pod, container, options)
        try:
            connection, head = await self._send(node, address, _get(address, target), insecure=options.insecure)
        except RemoteUnreachable as error:
            self._log_tls_failures.value += isinstance(error, UnverifiedCertificate)
            raise errors.ApiError(f'Get "https://{address}{target}": {error}') from None
        try:
            if not 200 <= head.status <= 206:
                raise log_error(head.status, await _read_prefix(connection), pod.metadata.name)
            while piece := await connection.read_piece():
                yield piece
        except RemoteUnreachable as error:
            raise errors.ApiError(str(error)) from None
        finally:
            connection.abort()

    async def open(self, pod: Pod, container: str, wanted: PodStreamRequest) -> PodConnections:
        """Open an exec, attach or portforward connection."""
        node, address = self._locate(pod.spec.node_name)
        request = upgrade_request(str(address), stream_target(pod, container, wanted), wanted)
        try:
            connection, head = await self._send(node, address, request)
        except RemoteUnreachable as error:
            raise errors.ApiError(f"error dialing backend: {error}") from None
        if head.status == 101:
            return StreamSession(connection, wanted)
        try:
            if head.status < 400:
                raise errors.ApiError(f"invalid upgrade response: status code {head.status}")
            raise NodeConnectionRefused(
                head.status, await _read_prefix(connection), head.headers.get("content-type", "")
            )
        finally:
            connection.abort()

    async def get_text(self, name: str, target: str, seconds: float) -> str:
        """Return a page of a node within a timeout in seconds; raises an ApiError."""
        node, address = self._locate(name)
        try:
            async with asyncio.timeout(seconds):
                connection, head = await self._send(node, address, _get(address, target))
                try:
                    body = await _read_prefix(connection, _LARGEST_PAGE)
                finally:
                    connection.abort()
        except (RemoteUnreachable, TimeoutError) as error:
            raise errors.ApiError(f'Get "https://{address}{target}": {str(error) or "timeout"}') from None
        if head.status != 200:
            raise errors.ApiError(f'Get "https://{address}{target}": bad status code {head.status}')
        return body.decode("utf-8", "replace")

    async def proxy(self, request: Request, name: str, path: str, port: NodePort = DEFAULT_NODE_PORT) -> Response:
        """Forward a client's request to a node and return its response, which may be an upgrade."""
        node, address = self._locate(name)
        target = f"{path or '/'}?{request.query}" if request.query else path or "/"
        has_body = request.method != "HEAD"
        try:
            if port.number in ("", str(address.port)):
                dialled = address if self._config.allow_local_addresses else await _resolve(address)
                sent = _forwarded_request(request, address, target)
                connection, head = await self._send(node, address, sent, has_body=has_body, dialled=dialled)
            else:
                # Not the kubelet: any program of the node. It must not see the certificate of this server.
                dialled = await _resolve(HostPort(address.host, port.parse()))
                sent = _forwarded_request(request, HostPort(address.host, dialled.port), target)
                connection, head = await _send_without_identity(dialled, port.scheme == "https", sent, has_body)
        except RemoteUnreachable as error:
            if request.upgrade:
                raise errors.ApiError(f"error dialing backend: {error}") from None
            raise errors.service_unavailable(f"error trying to reach service: {error}") from None
        try:
            return await proxied_response(connection, head, HttpClientConnection.abort)
        except RemoteUnreachable as error:
            connection.abort()
            raise errors.service_unavailable(f"error trying to reach service: {error}") from None

    def _locate(self, name: str) -> tuple[Node, HostPort]:
        node = self._find(name)
        if node is None:
            raise errors.not_found("", "nodes", name)
        return node, address_of(node, self._config.address_types)

    async def _send(
        self,
        node: Node,
        address: HostPort,
        request: bytes,
        *,
        insecure: bool = False,
        has_body: bool = True,
        dialled: HostPort | None = None,
    ) -> tuple[HttpClientConnection, ResponseHead]:
        """Connect, send a request and return the connection with the response's head.

        `dialled` is the resolved address, if it was resolved before.
        """

        async def ask() -> tuple[HttpClientConnection, ResponseHead]:
            connection = await self._dialer.connect(node, address, insecure=insecure, dialled=dialled)
            try:
                return connection, await connection.exchange(request, has_body=has_body)
            except BaseException:
                connection.abort()
                raise

        return await _with_timeout(ask())


async def _send_without_identity(
    dialled: HostPort, secure: bool, request: bytes, has_body: bool
) -> tuple[HttpClientConnection, ResponseHead]:
    """Connect to a port of a node without this server's certificate, and without verifying the node's."""
    context = None
    if secure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    async def ask() -> tuple[HttpClientConnection, ResponseHead]:
        connection = await dial(*dialled, context, dialled.host, _DIAL_SECONDS)
        try:
            return connection, await connection.exchange(request, has_body=has_body)
        except BaseException:
            connection.abort()
            raise

    return await _with_timeout(ask())


async def _with_timeout(work: Coroutine[Any, Any, Made]) -> Made:
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


async def _resolve(address: HostPort) -> HostPort:
    return HostPort(await resolve_proxyable(address.host), address.port)


async def _read_prefix(connection: HttpClientConnection, most: int = _LONGEST_REFUSAL) -> bytes:
    said = bytearray()
    while piece := await connection.read_piece():
        said += piece
        if len(said) >= most:
            break
    return bytes(said[:most])


def _get(address: HostPort, target: str) -> bytes:
    return encode_request("GET", target, (("Host", str(address)), ("Accept", "*/*")))


def _forwarded_request(request: Request, address: HostPort, target: str) -> bytes:
    headers = ((name, value.translate(_UNSAFE)) for name, value in forwarded_headers(request, ""))
    return encode_request(request.method, target, [("Host", str(address)), *headers], request.body)


async def dial_pod(address: HostPort, connection: PortConnection) -> None:
    """Relay a connection to a pod, over the pod network, until the pod closes it; raises `RemoteUnreachable`."""
    try:
        async with asyncio.timeout(_DIAL_SECONDS):
            reader, writer = await asyncio.open_connection(*address)
    except TimeoutError:
        raise RemoteUnreachable(f"dial tcp {address}: i/o timeout") from None
    except OSError as error:
        raise RemoteUnreachable(f"dial tcp {address}: connect: {reason_of(error)}") from None
    sending = asyncio.ensure_future(_send(connection, writer))
    try:
        while piece := await reader.read(_PIECE):
            await connection.write(piece)
    except OSError as error:
        raise RemoteUnreachable(reason_of(error)) from None
    finally:
        sending.cancel()
        writer.transport.abort()


async def _send(connection: PortConnection, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await connection.read():
            writer.write(piece)
            await writer.drain()
