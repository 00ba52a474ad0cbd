# SPDX-License-Identifier: Apache-2.0
"""Program on a pseudo-terminal, and the screen that a person would see."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from tests.bounds import GIVE_UP_SECONDS

_TOKEN = re.compile(r"\x1b\[(?P<parameters>[0-9;?]*)(?P<kind>[A-Za-z])|(?P<plain>[^\x1b\r\n]+)|[\r\n]")


class Screen:
    """Rows of a terminal; knows the control sequences that the program uses and raises for any other."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows = [""]
        self.row = self.column = 0
        self.colors: set[str] = set()
        self._rest = ""

    def feed(self, text: str) -> None:
        """Interpret output of the program; an incomplete sequence waits for its rest."""
        text, self._rest = self._rest + text, ""
        position = 0
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                self._rest = text[position:]
                assert len(self._rest) < 10, f"unknown sequence {self._rest!r}"
                return
            position = found.end()
            if found["kind"]:
                self._control(found["parameters"], found["kind"])
            elif found["plain"]:
                self._put(found["plain"])
            else:
                self._move(found[0])

    def resize(self, columns: int) -> None:
        """Wrap all rows anew, as terminal emulators do."""
        rows, self.columns = self.rows, columns
        self.rows = [row[start : start + columns] for row in rows for start in range(0, max(1, len(row)), columns)]
        self.row, self.column = len(self.rows) - 1, len(self.rows[-1])

    def _move(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        else:
            self.row += 1
            self.rows += [""] * (self.row + 1 - len(self.rows))

    def _put(self, text: str) -> None:
        while text:
            if self.column == self.columns:
                self._move("\n")
                self.column = 0
            piece, text = text[: self.columns - self.column], text[self.columns - self.column :]
            row = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = row[: self.column] + piece + row[self.column + len(piece) :]
            self.column += len(piece)

    def _control(self, parameters: str, kind: str) -> None:
        if kind == "m":
            self.colors.add(parameters)
        elif kind == "A":
            self.row = max(0, self.row - int(parameters or 1))
        elif kind == "J" and not parameters:
            self.rows[self.row] = self.rows[self.row][: self.column]
            del self.rows[self.row + 1 :]
        else:
            raise AssertionError(f"unknown sequence {parameters}{kind}")


class Terminal:
    """Pseudo-terminal with a program on it."""

    def __init__(self, descriptor: int, process: int, columns: int, *, emulated: bool) -> None:
        self._emulated = emulated
        self._descriptor = descriptor
        self.process = process
        self.screen = Screen(columns)
        self.output = ""
        self.resize(columns)

    def wait(self, seen: Callable[[Screen], bool]) -> Screen:
        """Read output until the screen shows something."""
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while not seen(self.screen):
            assert time.monotonic() < deadline, self.screen.rows
            if not self._read(deadline):
                assert seen(self.screen), self.screen.rows
        return self.screen

    def wait_exit(self) -> int:
        """Read the rest of the output; returns the exit code."""
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while self._read(deadline):
            assert time.monotonic() < deadline
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.type("\x03")

    def type(self, text: str) -> None:
        """Type text."""
        os.write(self._descriptor, text.encode())

    def resize(self, columns: int) -> None:
        """Change the width of the terminal."""
        self.screen.resize(columns)
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def _read(self, deadline: float) -> bool:
        if not select.select((self._descriptor,), (), (), max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            piece = os.read(self._descriptor, 65536).decode()
        except OSError:  # the other end is closed
            return False
        self.output += piece
        if self._emulated:
            self.screen.feed(piece)
        return bool(piece)


@contextmanager
def program_on_terminal(
    command: Sequence[str], environment: Mapping[str, str], columns: int, *, emulated: bool = True
) -> Iterator[Terminal]:
    """Run a program on a terminal of its own, whose screen is emulated or not; it is killed at the end."""
    process, descriptor = pty.fork()
    if process == 0:
        os.execve(command[0], command, environment)
    try:
        yield Terminal(descriptor, process, columns, emulated=emulated)
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(process, 9)
            os.waitpid(process, 0)
        os.close(descriptor)


@contextmanager
def program_with_descriptor(
    command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[Callable[[str, str, str], str]]:
    """Run an interactive program; yields a function that types two lines and returns the output up to an end."""
    with program_on_terminal(command, environment, 500, emulated=False) as terminal:

        def type_and_read(line: str, check: str, end: str) -> str:
            start = len(terminal.output)
            terminal.type(line)
            terminal.type(check)
            terminal.wait(lambda _: end in terminal.output[start:])
            return terminal.output[start:]

        yield type_and_read
