# SPDX-License-Identifier: Apache-2.0
"""nftables through the program nft: one child process for each script."""

from __future__ import annotations

from typing import Final

from kubeloop.exec import CommandResult, run_command
from kubeloop.nftables.interface import NftablesError, NftablesUnavailable, check_version, error_of

RUN_SECONDS: Final = 120.0  # a table of tens of thousands of services takes seconds
_VERSION_SECONDS: Final = 10.0


class NftCommand:
    """Runs scripts by `nft -f -`; made by `open_command`."""

    def __init__(self, program: str = "nft") -> None:
        self._program = program

    async def run(self, script: str, *, check: bool = False) -> str:
        """Run a script as one transaction."""
        arguments = ("--check", "-f", "-") if check else ("-f", "-")
        result = await self._run(arguments, script.encode(), RUN_SECONDS)
        if result.exit_code:
            raise error_of(result.stderr.decode(errors="replace"), script)
        return result.stdout.decode(errors="replace")

    async def close(self) -> None:
        """Do nothing: no process outlives its script."""

    async def check_installed(self) -> None:
        """Check that the program exists and is new enough. Raises `NftablesUnavailable`."""
        result = await self._run(("--version",), b"", _VERSION_SECONDS)
        check_version(result.stdout.decode(errors="replace"))

    async def _run(self, arguments: tuple[str, ...], stdin: bytes, seconds: float) -> CommandResult:
        try:
            return await run_command((self._program, *arguments), stdin=stdin, seconds=seconds)
        except TimeoutError:
            raise NftablesError(f"{self._program} has not ended within {seconds:.0f} seconds") from None
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise NftablesUnavailable(f"{self._program} cannot be run ({reason}): install nftables") from None


async def open_command(program: str = "nft") -> NftCommand:
    """Return the interface to an installed nft. Raises `NftablesUnavailable`."""
    command = NftCommand(program)
    await command.check_installed()
    return command
