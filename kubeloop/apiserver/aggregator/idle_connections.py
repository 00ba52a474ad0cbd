"""Connections that are kept for the next request to the same address."""

from __future__ import annotations

from typing import Final

from kubeloop.apiserver.aggregator.connection import Connection
from kubeloop.apiserver.aggregator.endpoints import Address

_MOST: Final = 16


class IdleConnections:
    """A few for each address; once closed, none are kept any more."""

    def __init__(self) -> None:
        self._idle: dict[Address, list[Connection]] = {}
        self._closed = False

    def take(self, address: Address) -> Connection | None:
        """One that can be used, if there is any."""
        idle = self._idle.get(address, [])
        while idle:
            connection = idle.pop()
            if connection.is_usable:
                return connection
            connection.close()
        return None

    def keep(self, address: Address, connection: Connection) -> None:
        idle = self._idle.setdefault(address, [])
        if connection.is_usable and not self._closed and len(idle) < _MOST:
            idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        self._closed = True
        for connections in self._idle.values():
            for one in connections:
                one.close()
        self._idle.clear()
