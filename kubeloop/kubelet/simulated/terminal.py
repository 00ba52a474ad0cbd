# SPDX-License-Identifier: Apache-2.0
"""Line discipline of a terminal: echo, line editing and line endings."""

from __future__ import annotations

from collections import deque

from kubeloop.api.kubelet_requests import StandardStreams

_ENTER, _INTERRUPT, _END, _ERASE = "\r\n", "\x03", "\x04", "\x7f\b"


class Terminal:
    """Lines from a client and text to it; without a terminal everything passes unchanged."""

    def __init__(self, streams: StandardStreams) -> None:
        self._streams = streams
        self._typed: deque[str] = deque()

    async def write(self, data: bytes, *, error: bool = False) -> None:
        """Write output, with CRLF line endings on a terminal."""
        if self._streams.tty:
            data = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        await (self._streams.write_error(data) if error else self._streams.write(data))

    async def read_line(self, prompt: str = "") -> str | None:
        """Return the next line without its ending; None at the end of input."""
        if self._streams.tty and prompt:
            await self.write(prompt.encode())
        line = ""
        while (letter := await self._read_char()) is not None:
            if letter in _ENTER:
                await self._echo("\n")
                return line
            if self._streams.tty and letter in _ERASE:
                await self._echo("\b \b" if line else "")
                line = line[:-1]
            elif self._streams.tty and letter == _INTERRUPT:
                await self._echo("^C\n")
                return ""
            elif self._streams.tty and letter == _END:
                if not line:
                    return None
            else:
                line += letter
                await self._echo(letter)
        return line or None

    async def _echo(self, text: str) -> None:
        if self._streams.tty and text:
            await self.write(text.encode())

    async def _read_char(self) -> str | None:
        while not self._typed:
            piece = await self._streams.read()
            if not piece:
                return None
            self._typed.extend(piece.decode("utf-8", "replace"))
        return self._typed.popleft()
