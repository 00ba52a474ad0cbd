"""Direct connections to pod addresses over the pod network."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kubeloop.api.node_calls import PortConnection
from kubeloop.apiserver.aggregator.connection import RemoteUnreachable, reason_of
from kubeloop.apiserver.aggregator.endpoints import HostPort

_DIAL_SECONDS = 10.0
_PIECE = 64 << 10


async def dial_pod(address: HostPort, connection: PortConnection) -> None:
    """Relay a connection to the pod until the pod closes it; raises `RemoteUnreachable`."""
    try:
        async with asyncio.timeout(_DIAL_SECONDS):
            reader, writer = await asyncio.open_connection(*address)
    except TimeoutError:
        raise RemoteUnreachable(f"dial tcp {address}: i/o timeout") from None
    except OSError as error:
        raise RemoteUnreachable(f"dial tcp {address}: connect: {reason_of(error)}") from None
    sending = asyncio.ensure_future(_send(connection, writer))
    try:
        while piece := await reader.read(_PIECE):
            await connection.write(piece)
    except OSError as error:
        raise RemoteUnreachable(reason_of(error)) from None
    finally:
        sending.cancel()
        writer.transport.abort()


async def _send(connection: PortConnection, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await connection.read():
            writer.write(piece)
            await writer.drain()
