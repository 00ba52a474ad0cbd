"""One process that is started, killed, held and let go at will, and always comes back the way it was."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_ENDS_WITHIN = 10.0


class Process:
    """A command line and, while it runs, the process that it became."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self._command = tuple(command)
        self._environment = dict(environment)
        self.log = folder / f"{name}.log"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def exit_code(self) -> int | None:
        """How it ended, negative by a signal; None while it runs."""
        return self._process.returncode if self._process is not None else None

    async def start(self, *further: str) -> None:
        """Run it; arguments that are added stay, whenever it is started again."""
        self._command += tuple(one for one in further if one not in self._command)
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            )

    async def kill(self) -> None:
        """End it without a word, held or not."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """Ask it to end; insist if it does not."""
        self.signal(signal.SIGCONT)
        try:
            async with asyncio.timeout(_ENDS_WITHIN):
                await self._end(signal.SIGTERM)
        except TimeoutError:
            await self.kill()

    def hold(self) -> None:
        """It stands still, and knows nothing of it."""
        self.signal(signal.SIGSTOP)

    def let_go(self) -> None:
        self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        if (pid := self.pid) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    async def _end(self, number: int) -> None:
        self.signal(number)
        if self._process is not None:
            await self._process.wait()

    def last_words(self, lines: int = 5) -> str:
        """The end of its log, for somebody who has to find out why it ended."""
        with suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""
