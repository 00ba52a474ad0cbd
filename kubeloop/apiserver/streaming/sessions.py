# SPDX-License-Identifier: Apache-2.0
"""Common part of command sessions: streams, terminal size and exit status."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from kubeloop.api import errors
from kubeloop.api.kubelet_requests import CommandFailed, StandardStreams, TerminalSize
from kubeloop.apiserver.request.query import Query
from kubeloop.http.byte_pipe import BytePipe

# Runs the remote side; returns an exit code, or None if there is none.
Run = Callable[[StandardStreams], Awaitable[int | None]]
_LARGEST_RESIZE = 1024


class StreamOptions(NamedTuple):
    """Streams that a client requests."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


def stream_options_of(query: Query, names: tuple[str, str, str] = ("stdin", "stdout", "stderr")) -> StreamOptions:
    """Return the requested streams; a node's port has other names for the first three. Raises BadRequest."""
    stdin, stdout, stderr = (query.flag(name) for name in names)
    tty = query.flag("tty")
    if not (stdin or stdout or stderr):
        raise errors.bad_request("you must specify at least 1 of stdin, stdout, stderr")
    return StreamOptions(stdin, stdout, stderr and not tty, tty)


class CommandSession:
    """Session of one client and one command; subclasses implement the protocol."""

    def __init__(self, options: StreamOptions) -> None:
        self.options = options
        self.stdin = options.stdin
        self.tty = options.tty
        self.size: TerminalSize | None = None
        self.on_resize: Callable[[TerminalSize], None] | None = None
        self.input: BytePipe | None = None
        self._resizes = ""
        self._running: asyncio.Future[None] | None = None

    async def read(self) -> bytes:
        """Return the next input; empty at its end."""
        return await self.input.read() if self.stdin and self.input is not None else b""

    async def write(self, data: bytes) -> None:
        """Send output to the client, if it requested stdout."""
        if self.options.stdout and data:
            await self.send_output(data)

    async def write_error(self, data: bytes) -> None:
        """Send error output to the client; with a terminal it goes to stdout."""
        if self.tty:
            await self.write(data)
        elif self.options.stderr and data:
            await self.send_error(data)

    def resize(self, data: bytes) -> None:
        """Process data of the resize channel: a sequence of JSON texts."""
        self._resizes = (self._resizes + data.decode("utf-8", "replace")).lstrip()[-_LARGEST_RESIZE:]
        while self._resizes:
            try:
                found, end = json.JSONDecoder().raw_decode(self._resizes)
            except ValueError:
                return
            self._resizes = self._resizes[end:].lstrip()
            if isinstance(found, dict):
                width, height = found.get("Width", 0), found.get("Height", 0)
                if isinstance(width, int) and isinstance(height, int):
                    self.size = TerminalSize(width, height)
                    if self.on_resize is not None:
                        self.on_resize(self.size)

    def begin(self, run: Run, failure: str) -> None:
        """Start the command; errors are prefixed with `failure`."""
        self._running = asyncio.ensure_future(self._run(run, failure))

    def client_lost(self) -> None:
        """End the input and cancel the command, because the client has left."""
        if self.input is not None:
            self.input.end()
        if self._running is not None:
            self._running.cancel()

    async def _run(self, run: Run, failure: str) -> None:
        try:
            code = await run(self)
        except CommandFailed as told:
            status = told.status
        except Exception as error:  # reported to the client
            status = internal_error_status(f"{failure}: {error}")
        else:
            status = status_of_exit_code(code or 0)
        await self.send_status(status)

    # Implemented by the protocol.

    async def send_output(self, data: bytes) -> None:
        """Send stdout data by the protocol."""
        raise NotImplementedError

    async def send_error(self, data: bytes) -> None:
        """Send stderr data by the protocol."""
        raise NotImplementedError

    async def send_status(self, status: dict[str, Any]) -> None:
        """Send the final Status and end the connection."""
        raise NotImplementedError


def status_of_exit_code(exit_code: int) -> dict[str, Any]:
    """Return the Status for a command's exit code."""
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {exit_code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
    }


def internal_error_status(message: str) -> dict[str, Any]:
    """Return the Status of an internal error."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {message}",
        "reason": "InternalError",
        "details": {"causes": [{"message": message}]},
        "code": 500,
    }


def legacy_status_text(status: dict[str, Any]) -> bytes:
    """Return the error text for protocol versions before v4; empty for success."""
    return b"" if status["status"] == "Success" else str(status["message"]).encode()
