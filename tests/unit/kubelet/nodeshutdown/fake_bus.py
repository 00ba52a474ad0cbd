# SPDX-License-Identifier: Apache-2.0
"""Message bus with a logind of its own, at a Unix socket."""

from __future__ import annotations

import array
import asyncio
import os
import socket
from pathlib import Path
from typing import Any

from kubeloop.kubelet.nodeshutdown.dbus_wire import (
    ERROR,
    METHOD_RETURN,
    PREFIX_BYTES,
    SIGNAL,
    DBusMessage,
    decode_message,
    encode_message,
    message_length,
)

MICRO = 1_000_000


class FakeBus:
    """Bus for one client at a time. `delay` is the time in seconds for which logind delays shutdowns at most."""

    def __init__(self, path: Path, delay: float = 5.0) -> None:
        self.path = path
        self.delay = delay
        self.delay_after_reload = delay
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.locks: list[int] = []  # ends of pipes, whose other ends clients hold
        self.has_logind = True
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._client: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> FakeBus:
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._task = asyncio.create_task(self._serve())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._listener.close()
        for one in self.locks:
            os.close(one)

    def disconnect(self) -> None:
        """End the connection of the client."""
        if self._client is not None:
            self._client.shutdown(socket.SHUT_RDWR)

    async def announce(self, is_shutting_down: object, signature: str = "b") -> None:
        """Send PrepareForShutdown."""
        assert self._client is not None
        signal = DBusMessage(
            SIGNAL,
            99,
            "/org/freedesktop/login1",
            "org.freedesktop.login1.Manager",
            "PrepareForShutdown",
            signature=signature,
            body=(is_shutting_down,),
        )
        await asyncio.get_running_loop().sock_sendall(self._client, encode_message(signal))

    def held_locks(self) -> int:
        """Return the number of locks that the client has not closed."""
        return sum(not _is_closed(one) for one in self.locks)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(self._listener)
            self._client = client
            try:
                await self._talk(loop, client)
            except OSError:
                pass
            finally:
                self._client = None
                client.close()

    async def _talk(self, loop: asyncio.AbstractEventLoop, client: socket.socket) -> None:
        line = await loop.sock_recv(client, 4096)
        assert line == b"\0AUTH EXTERNAL " + str(os.geteuid()).encode().hex().encode() + b"\r\n"
        await loop.sock_sendall(client, b"OK 1234\r\n")
        assert await loop.sock_recv(client, 4096) == b"NEGOTIATE_UNIX_FD\r\n"
        await loop.sock_sendall(client, b"AGREE_UNIX_FD\r\n")
        data = (await loop.sock_recv(client, 4096)).removeprefix(b"BEGIN\r\n")
        while True:
            while len(data) >= PREFIX_BYTES and len(data) >= (length := message_length(data[:PREFIX_BYTES])):
                self._answer(client, decode_message(data[:length]))
                data = data[length:]
            if not (piece := await loop.sock_recv(client, 4096)):
                return
            data += piece

    def _answer(self, client: socket.socket, call: DBusMessage) -> None:
        self.calls.append((call.member, call.body))
        reply = DBusMessage(METHOD_RETURN, 1, reply_serial=call.serial, sender="org.freedesktop.DBus")
        if call.destination == "org.freedesktop.login1" and not self.has_logind:
            text = "The name org.freedesktop.login1 was not provided by any .service files"
            name = "org.freedesktop.DBus.Error.ServiceUnknown"
            reply = reply._replace(type=ERROR, error_name=name, signature="s", body=(text,))
        elif call.member == "Get":
            reply = reply._replace(signature="v", body=(("t", int(self.delay * MICRO)),))
        elif call.member == "Hello":
            reply = reply._replace(signature="s", body=(":1.1",))
        elif call.member == "KillUnit":
            self.delay = self.delay_after_reload
        elif call.member == "Inhibit":
            kept, given = os.pipe()
            self.locks.append(kept)
            reply = reply._replace(signature="h", body=(0,), unix_fds=1)
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [given]))
            client.sendmsg([encode_message(reply)], [rights])
            os.close(given)
            return
        client.send(encode_message(reply))


def _is_closed(pipe: int) -> bool:
    """Return True if the other end of a pipe is closed."""
    os.set_blocking(pipe, False)
    try:
        return os.read(pipe, 1) == b""
    except BlockingIOError:
        return False
