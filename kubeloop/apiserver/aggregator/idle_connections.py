# SPDX-License-Identifier: Apache-2.0
"""Pool of idle connections, by address."""

from __future__ import annotations

from typing import Final

from kubeloop.apiserver.aggregator.endpoints import HostPort
from kubeloop.http.client import HttpClientConnection

_MAX_IDLE_PER_ADDRESS: Final = 16


class IdleConnectionPool:
    """Pool with a few idle connections per address; after close, none are kept."""

    def __init__(self) -> None:
        self._idle: dict[HostPort, list[HttpClientConnection]] = {}
        self._closed = False

    def take(self, address: HostPort) -> HttpClientConnection | None:
        """Return a usable connection, or None."""
        idle = self._idle.get(address, [])
        while idle:
            connection = idle.pop()
            if connection.is_usable:
                return connection
            connection.abort()
        return None

    def put(self, address: HostPort, connection: HttpClientConnection) -> None:
        """Return a connection to the pool, or close it if it is unusable or the pool is full."""
        idle = self._idle.setdefault(address, [])
        if connection.is_usable and not self._closed and len(idle) < _MAX_IDLE_PER_ADDRESS:
            idle.append(connection)
        else:
            connection.abort()

    def close(self) -> None:
        """Close all idle connections."""
        self._closed = True
        for connections in self._idle.values():
            for one in connections:
                one.abort()
        self._idle.clear()
