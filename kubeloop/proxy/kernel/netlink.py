# SPDX-License-Identifier: Apache-2.0
"""Netlink sockets and attributes, as far as dumps and deletions need them. Calls block: use a worker thread."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from typing import Final

NLM_F_REQUEST: Final = 1
NLM_F_ACK: Final = 4
NLM_F_DUMP: Final = 0x300
_NLMSG_ERROR: Final = 2
_NLMSG_DONE: Final = 3
_TYPE_MASK: Final = 0x3FFF  # without the flags for nesting and byte order
_HEADER: Final = struct.Struct("=IHHII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_RECEIVE_BYTES: Final = 1 << 17
_BUFFER_BYTES: Final = 1 << 20
_TIMEOUT_SECONDS: Final = 10.0


class NetlinkSocket:
    """Blocking netlink socket of one family; an answer has a deadline."""

    def __init__(self, family: int) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
        self._socket.settimeout(_TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        self._socket.bind((0, 0))
        self._sequence = 0

    def __enter__(self) -> NetlinkSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def dump(self, type: int, body: bytes) -> Iterator[bytes]:
        """Yield the bodies of the messages that answer a dump. Raises OSError."""
        self._send(type, NLM_F_REQUEST | NLM_F_DUMP, body)
        while True:
            for kind, _, content in self._receive():
                if kind == _NLMSG_DONE:
                    return
                if kind == _NLMSG_ERROR:
                    _check_error(content)
                    return
                yield content

    def call(self, type: int, body: bytes) -> None:
        """Send a request and wait for its acknowledgement. Raises OSError."""
        self._send(type, NLM_F_REQUEST | NLM_F_ACK, body)
        while True:
            for kind, _, content in self._receive():
                if kind == _NLMSG_ERROR:
                    _check_error(content)
                    return

    def _send(self, type: int, flags: int, body: bytes) -> None:
        self._sequence += 1
        self._socket.send(_HEADER.pack(_HEADER.size + len(body), type, flags, self._sequence, 0) + body)

    def _receive(self) -> Iterator[tuple[int, int, bytes]]:
        data = self._socket.recv(_RECEIVE_BYTES)
        at = 0
        while at + _HEADER.size <= len(data):
            length, kind, flags, sequence, _ = _HEADER.unpack_from(data, at)
            if length < _HEADER.size:
                return
            if sequence == self._sequence:
                yield kind, flags, data[at + _HEADER.size : at + length]
            at += (length + 3) & ~3


def attributes(data: bytes, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield type and content of each attribute; truncated ones end the sequence."""
    while start + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, start)
        if length < _ATTRIBUTE.size or start + length > len(data):
            return
        yield kind & _TYPE_MASK, data[start + _ATTRIBUTE.size : start + length]
        start += (length + 3) & ~3


def attribute(kind: int, content: bytes) -> bytes:
    """Return an attribute with its padding."""
    length = _ATTRIBUTE.size + len(content)
    return _ATTRIBUTE.pack(length, kind) + content + bytes(-length % 4)


def _check_error(content: bytes) -> None:
    (number,) = struct.unpack_from("=i", content)
    if number:
        raise OSError(-number, os.strerror(-number))
