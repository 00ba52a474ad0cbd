"""A command in a container, over a WebSocket with upstream's channels: input, output, errors, and how it ended."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.node_calls import ExecResult, NodeDialer
from kubeloop.apiserver.context import Context
from kubeloop.apiserver.http import HijackResponse, Response
from kubeloop.apiserver.http.websocket import WebSocket, chosen_protocol, handshake, wants_websocket

# With the fifth version a client can say that its input is over.
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255
_PIECE = 64 << 10


def command_response(ctx: Context, nodes: NodeDialer, pod: Pod, container: str) -> Response:
    """Open the connection, and run the command on it."""
    headers = ctx.request.headers
    if not ctx.request.upgrade or not wants_websocket(headers):
        raise errors.bad_request("Upgrade request required")
    protocol = chosen_protocol(headers, PROTOCOLS)
    if not protocol:
        raise errors.bad_request(f"unable to negotiate a subprotocol; this server speaks {', '.join(PROTOCOLS)}")
    session = _Session(nodes, pod, container, ctx)
    return HijackResponse(session.take_over, handshake(headers, protocol))


class _Session:
    """One command: gathers its input, runs it, sends what it said."""

    def __init__(self, nodes: NodeDialer, pod: Pod, container: str, ctx: Context) -> None:
        self._nodes = nodes
        self._pod = pod
        self._container = container
        self._command = ctx.query.every("command")
        self._wanted = {_STDOUT: ctx.query.flag("stdout"), _STDERR: ctx.query.flag("stderr")}
        self._input = bytearray()
        self._input_over = asyncio.Event()
        if not ctx.query.flag("stdin") or ctx.query.flag("tty"):  # who types at a terminal doesn't say when it is over
            self._input_over.set()
        self._socket = WebSocket(self._receive, self._input_over.set)
        self._running: asyncio.Future[None] | None = None

    def take_over(self, transport: asyncio.Transport, early: bytes) -> None:
        self._socket.take_over(transport, early)
        self._running = asyncio.ensure_future(self._run())

    def _receive(self, message: bytes) -> None:
        if not message:
            return
        if message[0] == _STDIN:
            self._input += message[1:]
        elif message[0] == _CLOSE and message[1:] == bytes([_STDIN]):
            self._input_over.set()

    async def _run(self) -> None:
        await self._input_over.wait()
        try:
            result = await self._nodes.execute(self._pod, self._container, self._command, bytes(self._input))
        except Exception as error:  # told to the one who waits at the other end
            await self._send(_ERROR, msgspec.json.encode(_failure(str(error), "InternalError", [])))
        else:
            await self._tell(result)
        self._socket.close()

    async def _tell(self, result: ExecResult) -> None:
        for channel, data in ((_STDOUT, result.stdout), (_STDERR, result.stderr)):
            if self._wanted[channel]:
                for begin in range(0, len(data), _PIECE):
                    await self._send(channel, data[begin : begin + _PIECE])
        await self._send(_ERROR, msgspec.json.encode(end_of(result)))

    async def _send(self, channel: int, data: bytes) -> None:
        await self._socket.send(bytes([channel]) + data)


def end_of(result: ExecResult) -> dict[str, Any]:
    """How a command ended, as a Status."""
    if result.exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    message = f"command terminated with non-zero exit code: exit status {result.exit_code}"
    causes = [{"reason": "ExitCode", "message": str(result.exit_code)}]
    return _failure(message, "NonZeroExitCode", causes)


def _failure(message: str, reason: str, causes: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": {"causes": causes},
        "code": 500,
    }
