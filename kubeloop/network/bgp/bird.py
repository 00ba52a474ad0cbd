# SPDX-License-Identifier: Apache-2.0
"""Runs BIRD 2: checks and writes its configuration, starts it, and has it load changes.

BIRD is a daemon of its own, so that sessions and routes survive the agent. The agent finds it by its control socket.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kubeloop.exec import CommandResult, run_command
from kubeloop.network.cni.config_writer import write_atomically

_SECONDS: Final = 10.0
_LOADED: Final = ("Reconfigured", "Reconfiguration in progress", "No changes in reconfiguration")


class BirdError(Exception):
    """Reason for which BIRD does not run with the desired configuration."""


class Bird:
    """BIRD with its files in one folder."""

    def __init__(self, folder: Path, program: str = "bird", client: str = "birdc") -> None:
        self._folder = folder
        self._program = program
        self._client = client
        self._config = folder / "bird.conf"
        self._socket = folder / "bird.ctl"

    async def load(self, config: str) -> bool:
        """Start BIRD with a configuration, or have it load a changed one; returns True if it did. Raises BirdError."""
        is_running = await self._is_running()
        if is_running and self._read_config() == config:
            return False
        self._folder.mkdir(parents=True, exist_ok=True)
        await self._check(config)
        write_atomically(self._config, config.encode(), 0o600)  # it may have passwords
        if is_running:
            done = await self._run(self._client, "-s", str(self._socket), "configure")
            output = done.stdout.decode(errors="replace")
            if not any(text in output for text in _LOADED):
                raise BirdError(f"BIRD did not load its configuration: {output.strip()}")
        else:
            await self._start()
        return True

    async def session_states(self) -> dict[str, str]:
        """Return the states of BGP sessions by name, such as Established. Raises BirdError."""
        done = await self._run(self._client, "-s", str(self._socket), "show", "protocols")
        rows = [line.split() for line in done.stdout.decode(errors="replace").splitlines()]
        return {row[0]: row[5] if len(row) > 5 else row[3] for row in rows if len(row) > 3 and row[1] == "BGP"}

    async def stop(self) -> None:
        """End BIRD with its sessions and routes, if it runs. Raises BirdError."""
        if await self._is_running():
            await self._run(self._client, "-s", str(self._socket), "down")

    async def _start(self) -> None:
        files = ("-R", "-c", str(self._config), "-s", str(self._socket), "-P", str(self._folder / "bird.pid"))
        done = await self._run(self._program, *files)
        if done.exit_code:
            raise BirdError(f"BIRD does not start: {_message_of(done)}")

    async def _is_running(self) -> bool:
        if not self._socket.exists():
            return False
        done = await self._run(self._client, "-s", str(self._socket), "show", "status")
        return done.exit_code == 0 and b"BIRD" in done.stdout

    async def _check(self, config: str) -> None:
        path = self._folder / "bird.conf.new"
        write_atomically(path, config.encode(), 0o600)
        done = await self._run(self._program, "-p", "-c", str(path))
        path.unlink(missing_ok=True)
        if done.exit_code:
            raise BirdError(f"BIRD refuses the configuration: {_message_of(done)}")

    def _read_config(self) -> str:
        try:
            return self._config.read_text()
        except FileNotFoundError:
            return ""

    async def _run(self, *command: str) -> CommandResult:
        try:
            return await run_command(command, seconds=_SECONDS)
        except OSError as error:
            raise BirdError(f"{command[0]} cannot be started: {error.strerror or error}") from None
        except TimeoutError:
            raise BirdError(f"{command[0]} did not answer within {_SECONDS:g} s") from None


def _message_of(done: CommandResult) -> str:
    return (done.stderr or done.stdout).decode(errors="replace").strip().partition("\n")[0]
