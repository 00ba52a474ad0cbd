# SPDX-License-Identifier: Apache-2.0
"""Commands, attached streams and forwarded ports, through the streaming server of the container runtime."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.kubelet_requests import ForwardFailed, PodStreamRequest, PortConnection, StandardStreams
from kubeloop.http.client import HttpClientConnection
from kubeloop.http.client.messages import ConnectionFailure
from kubeloop.kubelet.cri.messages.streaming import AttachRequest, ExecRequest
from kubeloop.kubelet.cri.services import RuntimeService
from kubeloop.remotecommand.session import StreamSession, upgrade_request

_DIAL_SECONDS = 30.0
_SWITCHING = 101
_NO_POD = Pod()  # the runtime's URL identifies the container


class StreamingError(OSError):
    """Raised if the runtime's streaming server does not accept a connection."""


class StreamingClient:
    """Connects the streams of clients with containers."""

    def __init__(self, runtime: RuntimeService) -> None:
        self._runtime = runtime

    async def exec(self, id: str, command: tuple[str, ...], streams: StandardStreams) -> int:
        """Run a command in a container and return its exit code."""
        wanted = PodStreamRequest(
            "exec", command, stdin=streams.stdin, stdout=True, stderr=not streams.tty, tty=streams.tty
        )
        request = ExecRequest(
            container_id=id, cmd=command, tty=wanted.tty, stdin=wanted.stdin, stdout=True, stderr=wanted.stderr
        )
        session = await _open(await self._runtime.exec(request), wanted)
        return await session.execute(_NO_POD, "", command, streams)

    async def attach(self, id: str, streams: StandardStreams, *, tty: bool) -> None:
        """Connect streams to the process of a container until it exits or the client leaves."""
        wanted = PodStreamRequest("attach", stdin=streams.stdin, stdout=True, stderr=not tty, tty=tty)
        request = AttachRequest(container_id=id, stdin=wanted.stdin, tty=tty, stdout=True, stderr=wanted.stderr)
        session = await _open(await self._runtime.attach(request), wanted)
        await session.attach(_NO_POD, "", streams)

    async def port_forward(self, sandbox: str, port: int, connection: PortConnection) -> None:
        """Relay a connection to a port of a sandbox. Raises `ForwardFailed`."""
        url = await self._runtime.port_forward(sandbox, (port,))
        try:
            session = await _open(url, PodStreamRequest("portforward"))
        except StreamingError as error:
            raise ForwardFailed(str(error)) from None
        try:
            await session.forward(_NO_POD, port, connection)
        finally:
            session.close()


async def _open(url: str, wanted: PodStreamRequest) -> StreamSession:
    parts = urlsplit(url)
    target = f"{parts.path}{'?' + parts.query if parts.query else ''}"
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(_DIAL_SECONDS):
        _, connection = await loop.create_connection(
            lambda: HttpClientConnection(_error_of), parts.hostname or "", parts.port or 80
        )
        head = await connection.exchange(upgrade_request(parts.netloc, target, wanted))
        if head.status == _SWITCHING:
            return StreamSession(connection, wanted)
        body = await connection.read_body()
    connection.abort()
    raise StreamingError(f"the container runtime answered {head.status}: {body[:1000].decode('utf-8', 'replace')}")


def _error_of(failure: ConnectionFailure) -> Exception:
    return StreamingError(failure.detail or str(failure.cause or "the connection was closed"))
