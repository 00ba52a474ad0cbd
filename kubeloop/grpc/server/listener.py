# SPDX-License-Identifier: Apache-2.0
"""gRPC server that listens at a Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path

from kubeloop.grpc.server.connection import ServerConnection
from kubeloop.grpc.server.limits import GrpcServerLimits
from kubeloop.grpc.server.methods import GrpcMethods

_BACKLOG = 128
_MAX_PATH_BYTES = 107  # of sockaddr_un


class GrpcServer:
    """Server of methods at a socket, whose file it creates and removes."""

    def __init__(self, path: Path, methods: GrpcMethods, limits: GrpcServerLimits | None = None) -> None:
        self._path = path
        self._methods = methods
        self._limits = limits or GrpcServerLimits()
        self._connections: set[ServerConnection] = set()
        self._server: asyncio.Server | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def start(self) -> None:
        """Listen; a socket that is left from an earlier process is replaced. Raises OSError."""
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _bind(listener, self._path)
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(self._connect, sock=listener, backlog=_BACKLOG)
        except OSError:
            listener.close()
            raise

    async def close(self, grace_seconds: float = 0.0) -> None:
        """Stop listening, let running calls finish within the grace period, and cancel the others."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        self._path.unlink(missing_ok=True)
        for connection in list(self._connections):
            connection.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self._idle.wait()
        for connection in list(self._connections):
            connection.abort()
        await self._idle.wait()

    def _connect(self) -> asyncio.Protocol:
        if len(self._connections) >= self._limits.connections:
            return _RefusedConnection()
        connection = ServerConnection(self._methods, self._limits, self._forget)
        self._connections.add(connection)
        self._idle.clear()
        return connection

    def _forget(self, connection: ServerConnection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._idle.set()


def _bind(listener: socket.socket, path: Path) -> None:
    """Bind a socket to a file; the kernel limits the length of the path that it is given, not that of the file's."""
    if len(os.fsencode(path)) <= _MAX_PATH_BYTES:
        listener.bind(str(path))
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


class _RefusedConnection(asyncio.Protocol):
    """Connection beyond the limit: closed at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
