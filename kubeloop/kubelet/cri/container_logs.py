# SPDX-License-Identifier: Apache-2.0
"""Log files of containers in CRI's format: lines of `TIME STREAM TAGS TEXT`; the tag P marks a part of a line."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

from kubeloop.api.kubelet_requests import PodLogOptions
from kubeloop.api.scalars.times import parse_time

_POLL_SECONDS = 0.2
_PIECE_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 16
_PARTIAL = b"P"


class LogLine(NamedTuple):
    """Line of a log, or a part of one."""

    time: bytes
    stream: bytes
    is_partial: bool
    text: bytes

    def format(self, *, timestamps: bool, is_continued: bool) -> bytes:
        """Return the text as clients get it; the time is only in front of whole lines."""
        end = b"" if self.is_partial else b"\n"
        return (self.time + b" " if timestamps and not is_continued else b"") + self.text + end


def parse_line(line: bytes) -> LogLine | None:
    """Parse a line without its end; None if it is not in the format."""
    parts = line.split(b" ", 3)
    if len(parts) < 4:
        parts.append(b"")
    if len(parts) != 4 or parts[1] not in (b"stdout", b"stderr"):
        return None
    time, stream, tags, text = parts
    return LogLine(time, stream, tags.split(b":", 1)[0] == _PARTIAL, text)


async def read_log(path: Path, options: PodLogOptions, is_running: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield the log in pieces; a followed log until the container has ended, across rotations of the file."""
    reader = _LogReader(options)
    file: BinaryIO = path.open("rb")
    try:
        if options.tail_lines is not None:
            file.seek(tail_offset(file, options.tail_lines))
        while True:
            was_running = is_running()
            for piece in _pieces(file, reader):
                yield piece
            if reader.is_full or not options.follow or not was_running:
                if rest := reader.convert(file.read()):  # a line without its end
                    yield rest
                return
            if (rotated := _rotated(file, path)) is not None:
                for piece in _pieces(file, reader):
                    yield piece
                if rest := reader.convert(file.read()):
                    yield rest
                file.close()
                file = rotated
                continue
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        file.close()


def last_lines(path: Path, lines: int, limit: int) -> str:
    """Return the end of a log: at most so many lines and bytes."""
    found: deque[bytes] = deque(maxlen=lines)
    reader = _LogReader(PodLogOptions())
    with path.open("rb") as file:
        file.seek(tail_offset(file, lines))
        for line in file:
            found.append(reader.convert(line.rstrip(b"\n")))
    return b"".join(found)[-limit:].decode("utf-8", "replace")


def tail_offset(file: BinaryIO, lines: int) -> int:
    """Return the offset at which the last lines of a file begin."""
    at = file.seek(0, os.SEEK_END)
    if lines <= 0:
        return at
    wanted = lines + 1  # the last line ends with a line end too
    while at > 0:
        begin = max(at - _BLOCK_BYTES, 0)
        file.seek(begin)
        block = file.read(at - begin)
        for index in reversed(range(len(block))):
            if block[index] == 0x0A:
                wanted -= 1
                if not wanted:
                    return begin + index + 1
        at = begin
    return 0


class _LogReader:
    """Selects and formats lines by the options of a client."""

    def __init__(self, options: PodLogOptions) -> None:
        self._options = options
        self._stream = options.stream.lower().encode() if options.stream not in ("", "All") else b""
        self._left = options.limit_bytes
        self._is_continued = False

    @property
    def is_full(self) -> bool:
        """True if the byte limit is reached."""
        return self._left == 0

    def convert(self, line: bytes) -> bytes:
        """Return the text of a line, empty if it is not selected."""
        found = parse_line(line)
        if found is None or self.is_full:
            return b""
        if (self._stream and found.stream != self._stream) or self._is_too_old(found):
            return b""
        text = found.format(timestamps=self._options.timestamps, is_continued=self._is_continued)
        self._is_continued = found.is_partial
        if self._left is not None:
            text = text[: self._left]
            self._left -= len(text)
        return text

    def _is_too_old(self, line: LogLine) -> bool:
        since = self._options.since
        return since is not None and _time_of(line) < since


def _time_of(line: LogLine) -> datetime:
    """Return the time of a line to microseconds; CRI's have nanoseconds."""
    text = line.time.decode("ascii", "replace")
    seconds, dot, rest = text.partition(".")
    if not dot:
        return parse_time(text)
    digits = "".join(one for one in rest if one.isdigit())[:6]
    zone = rest.lstrip("0123456789")
    return datetime.fromisoformat(f"{seconds}.{digits:0<6}{'+00:00' if zone == 'Z' else zone}")


def _pieces(file: BinaryIO, reader: _LogReader) -> Iterator[bytes]:
    """Yield what whole lines of the rest of a file give; a line under construction is left for later."""
    gathered: list[bytes] = []
    size = 0
    while True:
        begin = file.tell()
        line = file.readline()
        if not line.endswith(b"\n"):
            file.seek(begin)
            break
        text = reader.convert(line[:-1])
        gathered.append(text)
        size += len(text)
        if size >= _PIECE_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
        if reader.is_full:
            break
    if size:
        yield b"".join(gathered)


def _rotated(file: BinaryIO, path: Path) -> BinaryIO | None:
    """Return the new file if the log was rotated: the runtime writes to the old one no more."""
    try:
        new = path.stat()
    except OSError:
        return None
    old = os.fstat(file.fileno())
    if (new.st_ino, new.st_dev) == (old.st_ino, old.st_dev):
        return None
    return path.open("rb")
