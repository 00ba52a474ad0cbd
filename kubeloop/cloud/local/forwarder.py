# SPDX-License-Identifier: Apache-2.0
"""Forwards TCP connections in both directions until each side has closed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kubeloop.cloud.local.backends import Backend

MAX_CONNECTIONS = 1024  # limit of concurrent connections per listener; further ones are closed
CONNECT_SECONDS = 5.0
BUFFER_SIZE = 65536

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """Decision about a client."""

    backends: Sequence[Backend]  # to be tried in this order; empty if the client is refused or no backend exists
    on_chosen: Callable[[Backend], None]  # called with the chosen backend


class Forwarder:
    """One open port."""

    def __init__(self, choose: Callable[[str], BackendChoice]) -> None:
        self._choose = choose
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self, host: str, port: int) -> None:
        """Open the listener."""
        self._server = await asyncio.start_server(self._accept, host, port)

    async def close(self) -> None:
        """Accept no more connections, and cancel the existing ones."""
        if self._server is not None:
            self._server.close()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._connections) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError) as error:
            log.debug("a connection was closed: %s", error)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = str(writer.get_extra_info("peername")[0])
        choice = self._choose(client)
        opened = await _first_open(choice)
        if opened is None:
            return
        there_reader, there_writer = opened
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, there_writer))
                group.create_task(_pump(there_reader, writer))
            writer.close()
            await writer.wait_closed()
        except ExceptionGroup as error:
            log.debug("a connection failed: %s", error.exceptions[0])
        finally:
            there_writer.close()


async def _first_open(choice: BackendChoice) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    for backend in choice.backends:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                opened = await asyncio.open_connection(backend.host, backend.port)
        except (OSError, TimeoutError) as error:
            log.debug("unable to connect to %s:%d: %s", backend.host, backend.port, error)
            continue
        choice.on_chosen(backend)
        return opened
    return None


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while piece := await source.read(BUFFER_SIZE):
        target.write(piece)
        await target.drain()
    if target.can_write_eof():
        target.write_eof()
