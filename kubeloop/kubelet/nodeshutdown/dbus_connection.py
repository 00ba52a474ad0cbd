# SPDX-License-Identifier: Apache-2.0
"""Connection to a D-Bus message bus at a Unix socket: method calls, signals, and descriptors that come with them."""

from __future__ import annotations

import array
import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, NamedTuple

from kubeloop.kubelet.nodeshutdown.dbus_wire import (
    ERROR,
    METHOD_CALL,
    METHOD_RETURN,
    PREFIX_BYTES,
    SIGNAL,
    DBusMessage,
    DBusWireError,
    decode_message,
    encode_message,
    message_length,
)

BUS = "org.freedesktop.DBus"
_BUS_PATH = "/org/freedesktop/DBus"
_SYSTEM_BUS = "unix:path=/var/run/dbus/system_bus_socket"
_READ_BYTES, _MOST_DESCRIPTORS = 1 << 16, 16
_CALL_SECONDS = 25.0  # as other clients of D-Bus


class DBusError(Exception):
    """Raised if the bus cannot be reached, or answers with an error."""


class DBusObject(NamedTuple):
    """Interface of an object of a service."""

    service: str
    path: str
    interface: str


def system_bus_path(address: str | None = None) -> str:
    """Return the socket of the system bus, as in its address. Raises `DBusError`.

    `address` is the value of DBUS_SYSTEM_BUS_ADDRESS; a list of addresses may be separated by semicolons.
    """
    for one in (address or _SYSTEM_BUS).split(";"):
        transport, _, options = one.partition(":")
        words = dict(word.partition("=")[::2] for word in options.split(","))
        if transport == "unix" and "path" in words:
            return words["path"]
        if transport == "unix" and "abstract" in words:
            return f"\0{words['abstract']}"
    raise DBusError(f"no supported address of the system bus: {address}")


class DBusConnection:
    """Connection of one client. `signals` ends with the connection."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._serial = 0
        self._replies: dict[int, asyncio.Future[DBusMessage]] = {}
        self._signals: asyncio.Queue[DBusMessage | None] = asyncio.Queue()
        self._descriptors: list[int] = []  # received, not taken by a message yet
        self._reader: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect, authenticate and register at the bus. Raises `DBusError`."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                await loop.sock_connect(self._socket, self._path)
                await self._authenticate(loop)
        except (OSError, TimeoutError) as error:
            self._socket.close()
            raise DBusError(f"dial unix {self._path}: {error.strerror or 'timed out'}") from None
        self._reader = asyncio.create_task(self._read(loop))
        await self.call(DBusObject(BUS, _BUS_PATH, BUS), "Hello")

    async def close(self) -> None:
        """Close the connection and the descriptors that no message has taken."""
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader
        self._socket.close()
        while self._descriptors:
            os.close(self._descriptors.pop())

    async def call(self, target: DBusObject, method: str, signature: str = "", *arguments: Any) -> tuple[Any, ...]:
        """Call a method and return the values of its reply; a descriptor belongs to the caller. Raises `DBusError`."""
        self._serial += 1
        serial, loop = self._serial, asyncio.get_running_loop()
        reply: asyncio.Future[DBusMessage] = loop.create_future()
        self._replies[serial] = reply
        message = DBusMessage(
            METHOD_CALL,
            serial,
            target.path,
            target.interface,
            method,
            destination=target.service,
            signature=signature,
            body=arguments,
        )
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                await loop.sock_sendall(self._socket, encode_message(message))
                return (await reply).body
        except (OSError, TimeoutError) as error:
            raise DBusError(f"{method}: {error.strerror or 'the bus does not answer'}") from None
        finally:
            del self._replies[serial]

    async def add_match(self, rule: str) -> None:
        """Ask the bus for the signals that fit a rule. Raises `DBusError`."""
        await self.call(DBusObject(BUS, _BUS_PATH, BUS), "AddMatch", "s", rule)

    async def signals(self) -> AsyncIterator[DBusMessage]:
        """Yield signals until the connection ends."""
        while (message := await self._signals.get()) is not None:
            yield message

    async def _authenticate(self, loop: asyncio.AbstractEventLoop) -> None:
        """Authenticate as the user of this process and agree on descriptors. Raises `OSError`."""
        user = str(os.geteuid()).encode().hex().encode()
        await loop.sock_sendall(self._socket, b"\0AUTH EXTERNAL " + user + b"\r\n")
        if not (await self._line(loop)).startswith(b"OK "):
            raise OSError(0, "authentication refused")
        await loop.sock_sendall(self._socket, b"NEGOTIATE_UNIX_FD\r\n")
        if not (await self._line(loop)).startswith(b"AGREE_UNIX_FD"):
            raise OSError(0, "the bus does not pass file descriptors")
        await loop.sock_sendall(self._socket, b"BEGIN\r\n")

    async def _line(self, loop: asyncio.AbstractEventLoop) -> bytes:
        """Return a line of the authentication; the server sends no more before it is answered."""
        line = b""
        while not line.endswith(b"\r\n"):
            if not (piece := await loop.sock_recv(self._socket, _READ_BYTES)):
                raise OSError(0, "connection closed")
            line += piece
        return line

    async def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Handle messages until the connection ends."""
        buffer, failure = bytearray(), "connection closed"
        try:
            while piece := await self._receive(loop):
                buffer += piece
                while len(buffer) >= PREFIX_BYTES and len(buffer) >= (
                    length := message_length(bytes(buffer[:PREFIX_BYTES]))
                ):
                    self._handle(decode_message(bytes(buffer[:length])))
                    del buffer[:length]
        except (OSError, DBusWireError) as error:
            failure = str(error)
        finally:
            self._signals.put_nowait(None)
            for reply in self._replies.values():
                if not reply.done():
                    reply.set_exception(DBusError(failure))

    async def _receive(self, loop: asyncio.AbstractEventLoop) -> bytes:
        """Return bytes, and keep the descriptors that came with them."""
        while True:
            try:
                data, ancillary, _, _ = self._socket.recvmsg(
                    _READ_BYTES,
                    socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize),
                    socket.MSG_CMSG_CLOEXEC,
                )
            except BlockingIOError:
                await _readable(loop, self._socket)
                continue
            for level, kind, content in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    whole = len(content) - len(content) % array.array("i").itemsize
                    self._descriptors += array.array("i", content[:whole])
            return data

    def _handle(self, message: DBusMessage) -> None:
        taken = [self._descriptors.pop(0) for _ in range(min(message.unix_fds, len(self._descriptors)))]
        reply = self._replies.get(message.reply_serial) if message.type in (METHOD_RETURN, ERROR) else None
        if reply is None or reply.done() or message.type == ERROR:
            for one in taken:
                os.close(one)
        if reply is not None and not reply.done():
            if message.type == ERROR:
                text = message.body[0] if message.signature.startswith("s") else message.error_name
                reply.set_exception(DBusError(text))
            else:
                reply.set_result(message._replace(body=_with_descriptors(message, taken)))
        elif message.type == SIGNAL:
            self._signals.put_nowait(message)


def _with_descriptors(message: DBusMessage, descriptors: list[int]) -> tuple[Any, ...]:
    """Return the values of a message whose body is one descriptor, or has none."""
    return tuple(descriptors[:1]) if message.signature == "h" else message.body


async def _readable(loop: asyncio.AbstractEventLoop, source: socket.socket) -> None:
    ready = asyncio.Event()
    loop.add_reader(source, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(source)
