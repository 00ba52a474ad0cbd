# SPDX-License-Identifier: Apache-2.0
"""Stand-in for logind on a message bus: gives locks, announces a shutdown, and tells when the lock is released.

Writes `ready`, `locked WHAT WHO MODE` and `released`. A line of its input announces a shutdown.
"""

from __future__ import annotations

import array
import os
import select
import socket
import sys
from typing import Any

from kubeloop.kubelet.nodeshutdown.dbus_wire import (
    METHOD_CALL,
    METHOD_RETURN,
    PREFIX_BYTES,
    SIGNAL,
    DBusMessage,
    decode_message,
    encode_message,
    message_length,
)

_NAME, _PATH, _MANAGER = "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"
_BUS = "org.freedesktop.DBus"
_HOUR_MICROSECONDS = 3_600_000_000


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class StandInLogind:
    """Service at the socket of a bus."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._data = b""
        self._serial = 0
        self._lock: int | None = None

    def register(self) -> None:
        """Authenticate, and take the name of logind."""
        self._socket.sendall(b"\0AUTH EXTERNAL " + str(os.geteuid()).encode().hex().encode() + b"\r\n")
        self._socket.recv(4096)
        self._socket.sendall(b"NEGOTIATE_UNIX_FD\r\n")
        self._socket.recv(4096)
        self._socket.sendall(b"BEGIN\r\n")
        bus = DBusMessage(METHOD_CALL, 0, "/org/freedesktop/DBus", _BUS, destination=_BUS)
        self._send(bus._replace(member="Hello"))
        self._send(bus._replace(member="RequestName", signature="su", body=(_NAME, 0)))
        while not any(one.reply_serial == self._serial for one in self._receive()):
            pass

    def run(self) -> None:
        """Serve until the input ends."""
        while True:
            sources: list[Any] = [self._socket, sys.stdin, *(() if self._lock is None else (self._lock,))]
            readable, _, _ = select.select(sources, [], [])
            if self._lock is not None and self._lock in readable:
                os.close(self._lock)
                self._lock = None
                _tell("released")
            if sys.stdin in readable:
                if not sys.stdin.readline():
                    return
                self._send(DBusMessage(SIGNAL, 0, _PATH, _MANAGER, "PrepareForShutdown", signature="b", body=(True,)))
            if self._socket in readable:
                for message in self._receive():
                    if message.type == METHOD_CALL:
                        self._answer(message)

    def _answer(self, call: DBusMessage) -> None:
        reply = DBusMessage(METHOD_RETURN, reply_serial=call.serial, destination=call.sender)
        if call.member == "Get":
            self._send(reply._replace(signature="v", body=(("t", _HOUR_MICROSECONDS),)))
        elif call.member == "Inhibit":
            self._lock, given = os.pipe()
            self._send(reply._replace(signature="h", body=(0,), unix_fds=1), given)
            os.close(given)
            what, who, _, mode = call.body
            _tell(f"locked {what} {who} {mode}")

    def _send(self, message: DBusMessage, *descriptors: int) -> None:
        self._serial += 1
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        self._socket.sendmsg([encode_message(message._replace(serial=self._serial))], rights)

    def _receive(self) -> list[DBusMessage]:
        self._data += self._socket.recv(65536)
        found = []
        while len(self._data) >= PREFIX_BYTES and len(self._data) >= (
            length := message_length(self._data[:PREFIX_BYTES])
        ):
            found.append(decode_message(self._data[:length]))
            self._data = self._data[length:]
        return found


if __name__ == "__main__":
    service = StandInLogind(sys.argv[1])
    service.register()
    _tell("ready")
    service.run()
