# SPDX-License-Identifier: Apache-2.0
"""Process that can be started, killed, suspended and continued, always with the same command line."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_ENDS_WITHIN = 10.0


class ManagedProcess:
    """Command line and, while it runs, its process."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self._command = tuple(command)
        self._environment = dict(environment)
        self.log = folder / f"{name}.log"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def is_running(self) -> bool:
        """True if the process runs."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int | None:
        """PID while it runs."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.returncode if self._process is not None else None

    async def start(self, *further: str) -> None:
        """Start the process; added arguments are kept for later starts."""
        self._command += tuple(one for one in further if one not in self._command)
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            )

    async def kill(self) -> None:
        """Kill the process, suspended or not."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """Terminate the process; kill it after a timeout."""
        self.signal(signal.SIGCONT)
        try:
            async with asyncio.timeout(_ENDS_WITHIN):
                await self._end(signal.SIGTERM)
        except TimeoutError:
            await self.kill()

    def suspend(self) -> None:
        """Suspend the process."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the process."""
        self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        """Send a signal, if the process runs."""
        if (pid := self.pid) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    async def _end(self, number: int) -> None:
        self.signal(number)
        if self._process is not None:
            await self._process.wait()

    def log_tail(self, lines: int = 5) -> str:
        """Return the last lines of the log, for diagnosis."""
        with suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""
