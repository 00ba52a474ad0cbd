# SPDX-License-Identifier: Apache-2.0
"""Runs a program as a child process with a time limit; kills it with its children after a timeout or a cancellation."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, cast

DEVNULL: Final = asyncio.subprocess.DEVNULL
PIPE: Final = asyncio.subprocess.PIPE
_KILLED_SECONDS: Final = 1.0  # a killed program is gone at once, unless the kernel cannot interrupt it


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Exit code (negative for a signal) and output of a program that has ended."""

    exit_code: int
    stdout: bytes
    stderr: bytes


async def run_command(
    command: Sequence[str | os.PathLike[str]],
    *,
    stdin: bytes | int | None = DEVNULL,
    stderr: int | None = PIPE,
    env: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> CommandResult:
    """Run a program to its end. Raises OSError if it cannot be started, TimeoutError if it takes longer than `seconds`.

    Bytes are written to its standard input. None for `stdin` or `stderr` shares the stream of this process; a program
    that shares standard input stays in this session, so that it can use the terminal.
    """
    transport, output = await _start(command, stdin, stderr, env)
    try:
        if isinstance(stdin, bytes):
            output.send(transport, stdin)
        async with asyncio.timeout(seconds):
            await output.ended
    except (TimeoutError, asyncio.CancelledError):
        await _kill(transport, output, has_session=stdin is not None)
        raise
    finally:
        transport.close()
    exit_code = transport.get_returncode()
    assert exit_code is not None, "the program has ended"
    return CommandResult(exit_code, bytes(output.stdout), bytes(output.stderr))


class _CommandOutput(asyncio.SubprocessProtocol):
    """Output of a program, and futures for its exit and for the end of its output, which children may delay."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()

    def send(self, transport: asyncio.SubprocessTransport, content: bytes) -> None:
        """Write the program's standard input, and close it. A program that does not read it loses nothing else."""
        pipe = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
        pipe.write(content)
        pipe.write_eof()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep what the program writes."""
        (self.stdout if fd == 1 else self.stderr).extend(data)

    def process_exited(self) -> None:
        """Note that the program itself has ended."""
        if not self.exited.done():
            self.exited.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        """Note that the program has ended and its pipes are closed."""
        if not self.ended.done():
            self.ended.set_result(None)


async def _start(
    command: Sequence[str | os.PathLike[str]],
    stdin: bytes | int | None,
    stderr: int | None,
    env: Mapping[str, str] | None,
) -> tuple[asyncio.SubprocessTransport, _CommandOutput]:
    """Start a program. A cancellation waits for the start: asyncio may wait forever for pipes of a cancelled one."""
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            _CommandOutput,
            *command,
            stdin=PIPE if isinstance(stdin, bytes) else stdin,
            stdout=PIPE,
            stderr=stderr,
            env=env,
            start_new_session=stdin is not None,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError):
            transport, output = await starting
            await _kill(transport, output, has_session=stdin is not None)
            transport.close()
        raise


async def _kill(transport: asyncio.SubprocessTransport, output: _CommandOutput, *, has_session: bool) -> None:
    """Kill a program, and the processes of its session if it has one of its own."""
    with suppress(ProcessLookupError):
        if has_session:
            os.killpg(transport.get_pid(), signal.SIGKILL)
        else:
            transport.kill()
    with suppress(TimeoutError):
        async with asyncio.timeout(_KILLED_SECONDS):
            await output.exited
