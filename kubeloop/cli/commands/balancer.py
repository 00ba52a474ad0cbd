# SPDX-License-Identifier: Apache-2.0
"""`kubeloop balancer`: one address for several API servers. Connections go to ready servers.

It forwards bytes without reading them, so that TLS is end to end. A server that stops answering gets no new
connections within seconds, and its open connections are closed: its clients reconnect to another one.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from itertools import count

from kubeloop.cli.program.foreground import run_in_foreground
from kubeloop.client.http.readiness import insecure_context, is_ready

PROBE_PERIOD = 1.0
PROBE_TIMEOUT = 2.0
FAILURE_THRESHOLD = 2  # in a row: a busy server may miss one
_CONNECT_WITHIN = 2.0
_PIECE = 65536
_ABOUT = """Balance connections over several API servers. Connections go to ready servers; those of a server that does
not answer are closed. TLS is end to end."""
_EXAMPLES = """Examples:
  # One address for three servers
  kubeloop balancer --port 6443 --server 127.0.0.1:6444 --server 127.0.0.1:6445 --server 127.0.0.1:6446
"""

Address = tuple[str, int]


class BackendServer:
    """API server behind the balancer."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.is_ready = True  # until it fails to say so
        self._silent = 0
        self.connections: set[asyncio.StreamWriter] = set()

    async def probe(self, context: ssl.SSLContext) -> None:
        """Check readiness; close open connections if the server does not answer at all."""
        try:
            async with asyncio.timeout(PROBE_TIMEOUT):
                self.is_ready = await is_ready(self.address, context)
        except (OSError, TimeoutError):
            self.is_ready = False
            self._silent += 1
            if self._silent >= FAILURE_THRESHOLD:
                await asyncio.gather(*map(_cut, self.connections))
        else:
            self._silent = 0


class Balancer:
    """TCP load balancer for API servers."""

    def __init__(self, servers: Sequence[Address]) -> None:
        self._servers = [BackendServer(address) for address in servers]
        self._turns = count()
        self._context = insecure_context()  # clients verify the server's certificate
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> Address:
        """Listen; returns the address, whose port was chosen if 0 was requested."""
        self._listener = await asyncio.start_server(self._connected, host, port)
        bound: Address = self._listener.sockets[0].getsockname()[:2]
        return bound

    def start_probes(self) -> None:
        """Start the readiness checks; servers that are not ready are used last."""
        self._begin(self._keep_looking())

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._listener is not None:
            self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._begin(self._pass_on(reader, writer))

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.gather(*(server.probe(self._context) for server in self._servers))
            await asyncio.sleep(PROBE_PERIOD)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for server in self._rotated():
                with suppress(OSError, TimeoutError):
                    async with asyncio.timeout(_CONNECT_WITHIN):
                        there, back = await asyncio.open_connection(*server.address)
                    await _join(server, (reader, writer), (there, back))
                    return
        finally:
            await _cut(writer)

    def _rotated(self) -> list[BackendServer]:
        """Return the servers, ready ones first, rotated each time."""
        turn = next(self._turns) % len(self._servers)
        rotated = self._servers[turn:] + self._servers[:turn]
        return sorted(rotated, key=lambda server: not server.is_ready)


_End = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _join(server: BackendServer, client: _End, there: _End) -> None:
    """Copy bytes in both directions until one end is closed; then close both."""
    both = {client[1], there[1]}
    server.connections |= both
    try:
        ways = [asyncio.create_task(_copy(client[0], there[1])), asyncio.create_task(_copy(there[0], client[1]))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
    finally:
        server.connections -= both
        await asyncio.gather(*map(_cut, both))


async def _cut(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add all flags."""
    parser.description, parser.epilog = _ABOUT, _EXAMPLES
    parser.add_argument(
        "--server",
        action="append",
        required=True,
        metavar="HOST:PORT",
        type=_address,
        dest="servers",
        help="address of an API server (repeat the flag for each)",
    )
    parser.add_argument("--bind-address", default="127.0.0.1", help="IP address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=6443, help="port to listen on; 0 for any free port (default: 6443)")


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form HOST:PORT")
    return host.strip("[]"), int(port)


def run_balancer(options: argparse.Namespace) -> int:
    """Run the balancer; returns the exit code."""

    async def start() -> Balancer:
        balancer = Balancer(options.servers)
        host, port = await balancer.start(options.bind_address, options.port)
        balancer.start_probes()
        print(f"kubeloop balancer is ready at {host}:{port}, for {len(options.servers)} servers", flush=True)
        return balancer

    return run_in_foreground(start)
