# SPDX-License-Identifier: Apache-2.0
"""Executes commands in simulated containers."""

from __future__ import annotations

import asyncio
import re
import tarfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from kubeloop.api.kubelet_requests import StandardStreams
from kubeloop.kubelet.simulated.files import FileSystemFull, InMemoryFiles
from kubeloop.kubelet.simulated.shell import SHELLS, ScriptStep, command_behavior, parse_script
from kubeloop.kubelet.simulated.terminal import Terminal

NOT_FOUND = 127
_PROMPT = "/ # "
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_NO_ROOM = "No space left on device"


class CommandContext(NamedTuple):
    """State shared by the commands of one container."""

    hostname: str
    variables: Mapping[str, str]
    files: InMemoryFiles


async def run_command(command: Sequence[str], around: CommandContext, streams: StandardStreams) -> int:
    """Run a command and return its exit code."""
    return await _Commands(around, streams).run(command)


def is_interactive(command: Sequence[str]) -> bool:
    """Return True if a command reads input: a shell without a script, or `cat`; also an image's default command."""
    name = _base(command[0]) if command else "sh"
    return (name in SHELLS and len(command) < 2) or (name == "cat" and len(command) == 1)


class _Exit(Exception):
    """Raised to end a shell."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _Commands:
    """Supported commands by name; others report an error as a shell would."""

    def __init__(self, around: CommandContext, streams: StandardStreams) -> None:
        self._around = around
        self._streams = streams
        self._terminal = Terminal(streams)
        self._captured: list[bytes] | None = None  # output redirected to a file
        self._known: dict[str, Callable[[Sequence[str]], Awaitable[int]]] = {
            "cat": self._cat,
            "env": self._env,
            "hostname": self._hostname,
            "ls": self._ls,
            "mkdir": self._mkdir,
            "printenv": self._env,
            "pwd": self._pwd,
            "rm": self._rm,
            "stty": self._stty,
            "tar": self._tar,
            "tee": self._tee,
            "test": self._test,
            "touch": self._touch,
        }

    async def run(self, words: Sequence[str]) -> int:
        """Run a command and return its exit code."""
        if not words:
            return 0
        name, arguments = _base(words[0]), words[1:]
        if name in SHELLS:
            try:
                return await self._shell(arguments)
            except _Exit as told:
                return told.code
        known = self._known.get(name)
        return await known(arguments) if known is not None else await self._other(words)

    # Shells.

    async def _shell(self, arguments: Sequence[str]) -> int:
        for index, argument in enumerate(arguments):
            if argument.startswith("-") and argument.endswith("c") and index + 1 < len(arguments):
                return await self._script(arguments[index + 1])
        code = 0
        while (line := await self._terminal.read_line(_PROMPT)) is not None:
            code = await self._script(line)
        return code

    async def _script(self, text: str) -> int:
        code = 0
        for operator, words in parse_script(text):
            if operator in ("&&", "||") and (operator == "&&") != (code == 0):
                continue
            code = await self._step((operator, [self._expand(word) for word in words]), code)
        return code

    async def _step(self, step: ScriptStep, before: int) -> int:
        words = step[1]
        if words[0] == "exit":
            raise _Exit(int(words[1]) % 256 if words[1:] and words[1].isdigit() else before)
        if len(words) > 2 and words[-2] in (">", ">>"):
            return await self._to_file(words[:-2], words[-1], append=words[-2] == ">>")
        return await self.run(words[1:] if words[0] == "exec" else words)

    async def _to_file(self, words: Sequence[str], path: str, *, append: bool) -> int:
        before = self._around.files.read(path) or b"" if append else b""
        captured: list[bytes] = []
        self._captured = captured
        try:
            code = await self.run(words)
        finally:
            self._captured = None
        return await self._write_file(path, before + b"".join(captured)) or code

    def _expand(self, word: str) -> str:
        """Expand known variables; unknown ones stay, as their values are not known."""
        known = self._around.variables
        return _VARIABLE.sub(lambda found: known.get(found[1] or found[2], found[0]), word)

    # Commands.

    async def _cat(self, arguments: Sequence[str]) -> int:
        names = [one for one in arguments if not one.startswith("-")]
        if not names:
            while piece := await self._streams.read():
                await self._write(piece)
            return 0
        code = 0
        for name in names:
            found = self._around.files.read(name)
            if found is None:
                code = await self._write_error(f"cat: can't open '{name}': No such file or directory")
            else:
                await self._write(found)
        return code

    async def _env(self, arguments: Sequence[str]) -> int:
        variables = self._around.variables
        if arguments:
            found = [variables[name] for name in arguments if name in variables]
            await self._write("".join(f"{value}\n" for value in found).encode())
            return 0 if len(found) == len(arguments) else 1
        await self._write("".join(f"{name}={value}\n" for name, value in variables.items()).encode())
        return 0

    async def _hostname(self, _: Sequence[str]) -> int:
        await self._write(f"{self._around.hostname}\n".encode())
        return 0

    async def _pwd(self, _: Sequence[str]) -> int:
        await self._write(b"/\n")
        return 0

    async def _ls(self, arguments: Sequence[str]) -> int:
        files, code = self._around.files, 0
        for name in [one for one in arguments if not one.startswith("-")] or ["/"]:
            if files.is_folder(name):
                await self._write("".join(f"{one}\n" for one in files.names_in(name)).encode())
            elif files.read(name) is not None:
                await self._write(f"{name}\n".encode())
            else:
                code = await self._write_error(f"ls: {name}: No such file or directory")
        return code

    async def _mkdir(self, arguments: Sequence[str]) -> int:
        for name in arguments:
            if not name.startswith("-"):
                self._around.files.make_folder(name)
        return 0

    async def _touch(self, arguments: Sequence[str]) -> int:
        files = self._around.files
        codes = [
            await self._write_file(name, files.read(name) or b"") for name in arguments if not name.startswith("-")
        ]
        return max(codes, default=0)

    async def _rm(self, arguments: Sequence[str]) -> int:
        code, forced = 0, any(one.startswith("-") and "f" in one for one in arguments)
        for name in arguments:
            if not name.startswith("-") and not self._around.files.remove(name) and not forced:
                code = await self._write_error(f"rm: can't remove '{name}': No such file or directory")
        return code

    async def _tee(self, arguments: Sequence[str]) -> int:
        data = await self._all_input()
        await self._write(data)
        return max([await self._write_file(name, data) for name in arguments if not name.startswith("-")], default=0)

    async def _test(self, arguments: Sequence[str]) -> int:
        """Evaluate `-d`, `-f` and `-e`; everything else is true."""
        if len(arguments) != 2:
            return 0
        how, path = arguments
        is_folder, is_file = self._around.files.is_folder(path), self._around.files.read(path) is not None
        return 0 if {"-d": is_folder, "-f": is_file, "-e": is_folder or is_file}.get(how, True) else 1

    async def _stty(self, arguments: Sequence[str]) -> int:
        if not self._streams.tty:
            return await self._write_error("stty: standard input: Not a tty")
        size = self._streams.size
        if list(arguments) == ["size"]:
            await self._write(f"{size.height} {size.width}\n".encode() if size is not None else b"0 0\n")
        return 0

    async def _tar(self, arguments: Sequence[str]) -> int:
        """Pack to or unpack from a pipe, as called by `kubectl cp`."""
        arguments = [one for one in arguments if not one.startswith("--")]
        mode, rest = (arguments[0].lstrip("-") if arguments else ""), list(arguments[1:])
        folder = rest[rest.index("-C") + 1] if "-C" in rest[:-1] else "/"
        if "x" in mode:
            try:
                self._around.files.unpack(await self._all_input(), folder)
            except tarfile.TarError as error:
                return await self._write_error(f"tar: {error}")
            except FileSystemFull:
                return await self._write_error(f"tar: {_NO_ROOM}")
            return 0
        names = [one for one in rest if one not in ("-", "-C", folder) and not one.startswith("-")]
        packed = self._around.files.pack(names[-1]) if "c" in mode and names else None
        if packed is None:
            return await self._write_error(f"tar: {names[-1] if names else ''}: No such file or directory")
        await self._write(packed)
        return 0

    async def _other(self, words: Sequence[str]) -> int:
        """Run any other command by its simulated behavior, with its duration and output."""
        course = command_behavior(words)
        if course.seconds is None and not course.lines and _base(words[0]) != "sleep":
            await self._write_error(f"{_base(words[0])}: not found (simulated container)")
            return NOT_FOUND
        past = 0.0
        for at, text in course.lines:
            await asyncio.sleep(at - past)
            past = at
            await self._write(f"{text}\n".encode())
        if course.seconds is None:
            await asyncio.Event().wait()  # until the client gives up
        else:
            await asyncio.sleep(course.seconds - past)
        return course.exit_code

    # Helpers.

    async def _write(self, data: bytes) -> None:
        if self._captured is not None:
            self._captured.append(data)
        else:
            await self._terminal.write(data)

    async def _write_error(self, text: str) -> int:
        await self._terminal.write(f"{text}\n".encode(), error=True)
        return 1

    async def _write_file(self, path: str, data: bytes) -> int:
        try:
            self._around.files.write(path, data)
        except FileSystemFull:
            return await self._write_error(_NO_ROOM)
        return 0

    async def _all_input(self) -> bytes:
        pieces = []
        while piece := await self._streams.read():
            pieces.append(piece)
        return b"".join(pieces)


def _base(program: str) -> str:
    return program.rpartition("/")[2]
