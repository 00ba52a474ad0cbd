# SPDX-License-Identifier: Apache-2.0
"""Client side of a SPDY connection: the streams of a command, or a pair per forwarded connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import msgspec

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.kubelet_requests import (
    CommandFailed,
    NodeForwardFailed,
    PodStreamRequest,
    PortConnection,
    StandardStreams,
    TerminalSize,
)
from kubeloop.http.byte_pipe import TransportCarrier
from kubeloop.http.client import HttpClientConnection, encode_request
from kubeloop.http.upgrade.spdy import SpdyConnection, SpdyStream

_UNUSED_SECONDS = 30.0  # seconds within which the session must be used
_LONGEST_STATUS = 64 << 10
_COMMANDS, _PORTS = "v4.channel.k8s.io", "portforward.k8s.io"
_CUT = "error reading from error stream: unexpected EOF"


def upgrade_request(host: str, target: str, wanted: PodStreamRequest) -> bytes:
    """Return the request that upgrades a connection to the streams of a command or of ports."""
    protocol = _PORTS if wanted.operation == "portforward" else _COMMANDS
    upgrade = (("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", protocol))
    return encode_request("POST", target, (("Host", host), *upgrade))


class StreamSession:
    """SPDY connection to a kubelet or a container runtime, for one command or any number of port connections."""

    def __init__(self, connection: HttpClientConnection, wanted: PodStreamRequest) -> None:
        self._wanted = wanted
        self._wire = TransportCarrier(self._data, self._ended)
        self._spdy = SpdyConnection(self._wire)
        self._requests = count()
        self._unused = asyncio.get_running_loop().call_later(_UNUSED_SECONDS, self.close)
        transport, early = connection.detach()
        self._wire.take_over(transport, early)
        if transport.is_closing():  # the peer closed the connection before it was used
            self._wire.close()

    def close(self) -> None:
        """Close the connection."""
        self._unused.cancel()
        self._spdy.close()

    async def execute(self, pod: Pod, container: str, command: tuple[str, ...], streams: StandardStreams) -> int:
        """Connect the streams of a command and return its exit code."""
        return exit_code(await self._serve(streams))

    async def attach(self, pod: Pod, container: str, streams: StandardStreams) -> None:
        """Connect the streams of a running container."""
        exit_code(await self._serve(streams))

    async def forward(self, pod: Pod, port: int, connection: PortConnection) -> None:
        """Relay one connection to a port by a pair of streams; returns when both sides are done."""
        self._unused.cancel()
        about = {"port": str(port), "requestid": str(next(self._requests))}
        error = self._spdy.open({"streamtype": "error", **about})
        error.finish()
        data = self._spdy.open({"streamtype": "data", **about})
        sending = asyncio.ensure_future(_pump(connection.read, data.write, data.finish))
        receiving = asyncio.ensure_future(_pump(data.read, connection.write))
        try:
            told = await _all_of(error)
            if told:
                raise NodeForwardFailed(told.decode("utf-8", "replace"))
            await receiving
        finally:
            for one in (sending, receiving):
                one.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)
            data.reset()

    async def _serve(self, streams: StandardStreams) -> bytes:
        """Connect all streams, and return the data of the error stream."""
        self._unused.cancel()
        wanted, opened = self._wanted, self._spdy.open
        error = opened({"streamtype": "error"})
        pumps: list[Awaitable[None]] = []
        stdin = opened({"streamtype": "stdin"}) if wanted.stdin else None
        if wanted.stdout:
            pumps.append(_pump(opened({"streamtype": "stdout"}).read, streams.write))
        if wanted.stderr:
            pumps.append(_pump(opened({"streamtype": "stderr"}).read, streams.write_error))
        if wanted.tty:
            _send_terminal_sizes(streams, opened({"streamtype": "resize"}))
        speaking = asyncio.ensure_future(_pump(streams.read, stdin.write, stdin.finish)) if stdin is not None else None
        try:
            told = asyncio.ensure_future(_all_of(error))
            await asyncio.gather(told, *pumps)
            return told.result()
        finally:
            streams.on_resize = None
            if speaking is not None:
                speaking.cancel()
            self.close()

    def _data(self, data: bytes) -> None:
        self._spdy.feed(data)

    def _ended(self) -> None:
        self._spdy.connection_lost()


def exit_code(told: bytes) -> int:
    """Return the exit code of the Status that ends a command; raises for any other result."""
    if not told:
        raise OSError(_CUT)
    try:
        status: dict[str, Any] = msgspec.json.decode(told, type=dict)
    except msgspec.MsgspecError:
        raise OSError(f"error stream protocol error: {told!r}") from None
    if status.get("status") == "Success":
        return 0
    if status.get("reason") == "NonZeroExitCode":
        causes = (status.get("details") or {}).get("causes") or ()
        codes = [str(one.get("message", "")) for one in causes if one.get("reason") == "ExitCode"]
        if codes and codes[0].isdigit():
            return int(codes[0])
    raise CommandFailed(status)


async def _pump(
    read: Callable[[], Awaitable[bytes]],
    write: Callable[[bytes], Awaitable[None]],
    finish: Callable[[], None] = lambda: None,
) -> None:
    while piece := await read():
        await write(piece)
    finish()


async def _all_of(stream: SpdyStream) -> bytes:
    said = b""
    while piece := await stream.read():
        said = (said + piece)[:_LONGEST_STATUS]
    return said


def _send_terminal_sizes(streams: StandardStreams, stream: SpdyStream) -> None:
    def tell(size: TerminalSize) -> None:
        stream.write_now(msgspec.json.encode({"Width": size.width, "Height": size.height}) + b"\n")

    streams.on_resize = tell
    if streams.size is not None:
        tell(streams.size)
