# SPDX-License-Identifier: Apache-2.0
"""Line at the bottom of a terminal that is redrawn in place; everything else that is printed appears above it.

print, log ──▶ TextAboveLine.write: erase the line ─ write the text ─ draw the line again
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from typing import IO, Any, Final, NamedTuple, cast

_GAP: Final = "  "
_ERASE: Final = "\r\x1b[J"
_UP: Final = "\x1b[{}A"
_COLORED: Final = "\x1b[{}m{}\x1b[0m"
PLAIN: Final = 0
GREEN: Final = 32
YELLOW: Final = 33
RED: Final = 31


class Segment(NamedTuple):
    """Part of the line, with the number of its colour in ANSI escape sequences."""

    text: str
    color: int = PLAIN


def is_usable(stream: IO[str], environment: Mapping[str, str]) -> bool:
    """Return True if a stream is a terminal on which a line can be redrawn, and a person may look at it."""
    if not stream.isatty() or environment.get("TERM", "dumb") == "dumb":
        return False
    return environment.get("CI", "").lower() in ("", "0", "false")


class TerminalLine:
    """Line of segments; those at the end are left out where the terminal is narrow."""

    def __init__(self, stream: IO[str], *, colored: bool) -> None:
        self._stream = stream
        self._descriptor = stream.fileno()
        self._colored = colored
        self._lock = threading.RLock()  # the log has writers in other threads
        self._segments: tuple[Segment, ...] = ()
        self._drawn = 0  # characters on the screen
        self._drawn_for: object = None  # segments and columns that they were drawn for

    def show(self, segments: Sequence[Segment]) -> None:
        """Show segments, if they or the width of the terminal changed."""
        with self._lock:
            self._segments = tuple(segments)
            if self._drawn_for != (self._segments, self._columns()):
                self._erase()
                self.draw()

    def clear(self) -> None:
        """Remove the line."""
        with self._lock:
            self._segments = ()
            self._erase()

    def draw(self) -> None:
        """Draw the segments; not in the background, and not while the terminal takes no output."""
        with self._lock:
            columns = self._columns()
            fitting = fit(self._segments, columns)
            if not fitting or not self._may_draw():
                return
            self._stream.write(_GAP.join(map(self._styled, fitting)))
            self._stream.flush()
            self._drawn, self._drawn_for = _width_of(fitting), (self._segments, columns)

    def write_above(self, stream: IO[str], text: str) -> int:
        """Write text to a stream, above the line once it ends with a line break."""
        with self._lock:
            self._erase()
            written = stream.write(text)
            stream.flush()
            if text.endswith("\n"):
                self.draw()
            return written

    def _erase(self) -> None:
        if not self._drawn:
            return
        rows = -(-self._drawn // max(1, self._columns()))  # more than one if the terminal has become narrower
        self._stream.write((_UP.format(rows - 1) if rows > 1 else "") + _ERASE)
        self._stream.flush()
        self._drawn, self._drawn_for = 0, None

    def _styled(self, segment: Segment) -> str:
        return _COLORED.format(segment.color, segment.text) if self._colored and segment.color else segment.text

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._descriptor).columns
        except OSError:
            return 0

    def _may_draw(self) -> bool:
        try:
            in_foreground = os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:
            return False
        return in_foreground and bool(select.select((), (self._descriptor,), (), 0)[1])


def fit(segments: Sequence[Segment], columns: int) -> Sequence[Segment]:
    """Return the first segments that fit into a row, without its last column."""
    count = len(segments)
    while count and _width_of(segments[:count]) >= columns:
        count -= 1
    return segments[:count]


def _width_of(segments: Sequence[Segment]) -> int:
    return sum(len(one.text) for one in segments) + len(_GAP) * (len(segments) - 1)


class TextAboveLine:
    """Stream whose text appears above the line; everything else is the stream's own."""

    def __init__(self, line: TerminalLine, stream: IO[str]) -> None:
        self._line = line
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text above the line."""
        return self._line.write_above(self._stream, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def open_line(stdout: IO[str], stderr: IO[str], environment: Mapping[str, str], cleanup: ExitStack) -> TerminalLine:
    """Open a line on stderr, until cleanup; what is printed to both streams appears above it."""
    line = TerminalLine(stderr, colored=not environment.get("NO_COLOR"))
    if stdout.isatty():
        cleanup.enter_context(redirect_stdout(cast("IO[str]", TextAboveLine(line, stdout))))
    cleanup.enter_context(redirect_stderr(cast("IO[str]", TextAboveLine(line, stderr))))
    cleanup.callback(line.clear)
    return line
