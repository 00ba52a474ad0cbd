# SPDX-License-Identifier: Apache-2.0
"""Interface to nftables: runs a script as one transaction."""

from __future__ import annotations

from typing import Final, Protocol

from kubeloop.exec import run_command

_SECONDS: Final = 60.0  # a table with a hundred thousand elements takes a few


class NftablesScriptError(Exception):
    """Reason for which the kernel, or nft, refused a script. Nothing of the script was applied."""


class NftablesRunner(Protocol):
    """Applies scripts in nft's language."""

    async def run(self, script: str) -> None:
        """Apply a script in one transaction. Raises `NftablesScriptError`, after which nothing has changed."""


class NftCommand:
    """Runs the program `nft` for each script."""

    def __init__(self, program: str = "nft", seconds: float = _SECONDS) -> None:
        self._program = program
        self._seconds = seconds

    async def run(self, script: str) -> None:
        """Apply a script in one transaction. Raises `NftablesScriptError`."""
        try:
            done = await run_command([self._program, "-f", "-"], stdin=script.encode(), seconds=self._seconds)
        except OSError as error:
            raise NftablesScriptError(f"{self._program} cannot be started: {error.strerror or error}") from None
        except TimeoutError:
            raise NftablesScriptError(f"{self._program} took longer than {self._seconds:g} s") from None
        if done.exit_code:
            message = done.stderr.decode(errors="replace").strip().partition("\n")[0]
            raise NftablesScriptError(message or f"{self._program} exited with code {done.exit_code}")
