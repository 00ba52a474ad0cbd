# SPDX-License-Identifier: Apache-2.0
"""Sockets of the server on loopback: UDP, TCP with several queries, idle and too many connections."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import dns.message
import dns.rcode
import pytest
import uvloop

from kubeloop.clock import SystemClock
from kubeloop.dns.forward.forwarder import DnsForwarder, ForwardSettings
from kubeloop.dns.listeners import DnsListeners, bind_sockets, socket_address
from kubeloop.dns.server import streams
from kubeloop.dns.server.handler import DnsHandler
from kubeloop.dns.server.metrics import DnsMetrics
from kubeloop.dns.server.streams import StreamConnections
from kubeloop.metrics import MetricRegistry
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.dns.dns_objects import code, lines, new_zone, service
from tests.unit.dns.test_forwarder import forwarder_of
from tests.unit.dns.upstream_server import reply, upstream_server

ZONE = new_zone(service("web", "10.3.0.1"))
WEB = "web.default.svc.cluster.local."
ANSWER = [f"{WEB} 30 A 10.3.0.1"]


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(GIVE_UP_SECONDS):
            await work()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


@asynccontextmanager
async def serve(
    forwarder: DnsForwarder | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[tuple[tuple[str, int], MetricRegistry]]:
    registry = MetricRegistry()
    metrics = DnsMetrics(registry, "dns://:53")
    listeners = DnsListeners(DnsHandler(ZONE, forwarder, SystemClock(), is_logging=True), metrics)
    pairs = bind_sockets((host,), 0)
    address = socket_address(pairs[0])
    await listeners.listen(pairs)
    try:
        yield address, registry
    finally:
        await listeners.close()


class _Client(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.received: asyncio.Queue[bytes] = asyncio.Queue()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.received.put_nowait(data)


@asynccontextmanager
async def datagram_client(address: tuple[str, int]) -> AsyncIterator[tuple[asyncio.DatagramTransport, _Client]]:
    transport, client = await asyncio.get_running_loop().create_datagram_endpoint(_Client, remote_addr=address)
    try:
        yield transport, client
    finally:
        transport.close()


def framed(name: str, rrtype: str = "A") -> bytes:
    data = dns.message.make_query(name, rrtype).to_wire()
    return len(data).to_bytes(2) + data


async def read_response(reader: asyncio.StreamReader) -> dns.message.Message:
    size = int.from_bytes(await reader.readexactly(2))
    return dns.message.from_wire(await reader.readexactly(size))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_datagrams_are_answered(host: str) -> None:
    async def work() -> None:
        async with serve(host=host) as (address, registry), datagram_client(address) as (transport, client):
            transport.sendto(b"garbage, dropped")
            transport.sendto(b"x")
            transport.sendto(dns.message.make_query(WEB, "A").to_wire())
            response = dns.message.from_wire(await client.received.get())
            while response.rcode() != dns.rcode.NOERROR:
                response = dns.message.from_wire(await client.received.get())
            assert lines(response) == ANSWER
            family = "1" if host == "127.0.0.1" else "2"
            labels = f'family="{family}",proto="udp",server="dns://:53",type="A",view="",zone="."'
            assert f"coredns_dns_requests_total{{{labels}}} 1\n" in registry.render()

    run(work)


def test_connection_carries_several_queries_in_any_pieces() -> None:
    async def work() -> None:
        async with serve() as (address, _):
            reader, writer = await asyncio.open_connection(*address)
            data = framed(WEB) + framed("no.cluster.local.") + framed(WEB)
            for at in range(0, len(data), 7):
                writer.write(data[at : at + 7])
                await writer.drain()
            assert lines(await read_response(reader)) == ANSWER
            assert code(await read_response(reader)) == "NXDOMAIN"
            assert lines(await read_response(reader)) == ANSWER
            writer.write(framed(WEB))
            writer.write_eof()
            assert lines(await read_response(reader)) == ANSWER
            assert await reader.read() == b""
            writer.close()

    run(work)


def test_forwarded_queries_of_a_connection_are_answered_after_its_end() -> None:
    async def work() -> None:
        async with upstream_server(lambda query, _: reply(query, "a.example. 9 IN A 192.0.2.1")) as upstream:
            forwarder = forwarder_of(upstream)
            async with serve(forwarder) as (address, registry):
                reader, writer = await asyncio.open_connection(*address)
                writer.write(framed("a.example."))
                writer.write_eof()
                assert lines(await read_response(reader)) == ["a.example. 9 A 192.0.2.1"]
                assert await reader.read() == b""
                writer.close()
                async with datagram_client(address) as (transport, client):
                    transport.sendto(dns.message.make_query("a.example.", "A").to_wire())
                    assert lines(dns.message.from_wire(await client.received.get())) == ["a.example. 9 A 192.0.2.1"]
                text = registry.render()
                for plugin in ("forward", "cache"):
                    labels = f'plugin="{plugin}",rcode="NOERROR",server="dns://:53",view="",zone="."'
                    assert f"coredns_dns_responses_total{{{labels}}} 1\n" in text

    run(work)


def test_loop_between_two_servers_ends() -> None:
    """A query that comes back joins the exchange that it came from, instead of starting another one."""

    async def work() -> None:
        pairs = [bind_sockets(("127.0.0.1",), 0) for _ in range(2)]
        addresses = [socket_address(one[0]) for one in pairs]
        settings = ForwardSettings(attempt_timeout=0.2, deadline=0.4)
        registries, servers = [], []
        for own, other in zip(pairs, reversed(addresses), strict=True):
            registries.append(MetricRegistry())
            handler = DnsHandler(ZONE, forwarder_of(other, settings=settings), SystemClock())
            servers.append(DnsListeners(handler, DnsMetrics(registries[-1], "dns://:53")))
            await servers[-1].listen(own)
        async with datagram_client(addresses[0]) as (transport, client):
            transport.sendto(dns.message.make_query("a.example.", "A").to_wire())
            assert code(dns.message.from_wire(await client.received.get())) == "SERVFAIL"
        for server in servers:
            await server.close()
        counts = [_requests(one) for one in registries]
        assert sum(counts) <= 12, counts

    run(work)


def _requests(registry: MetricRegistry) -> float:
    found = [line for line in registry.render().splitlines() if line.startswith("coredns_dns_requests_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in found)


def test_idle_connection_is_closed() -> None:
    async def work() -> None:
        metrics = DnsMetrics(MetricRegistry(), "dns://:53")
        connections = StreamConnections(DnsHandler(ZONE, None, SystemClock()), metrics, idle_seconds=0.05)
        server = await asyncio.get_running_loop().create_server(connections.new_protocol, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(framed(WEB)[:20])
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        server.close()
        while len(connections):  # noqa: ASYNC110  # the protocol hears of it in one of the next turns
            await asyncio.sleep(0)

    run(work)


def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_CONNECTIONS", 2)

    async def work() -> None:
        async with serve() as (address, _):
            opened = []
            for _ in range(2):
                reader, writer = await asyncio.open_connection(*address)
                writer.write(framed(WEB))
                await read_response(reader)
                opened.append(writer)
            reader, writer = await asyncio.open_connection(*address)
            assert await reader.read() == b""
            for one in (*opened, writer):
                one.close()

    run(work)


def test_connection_that_sends_no_query_is_closed() -> None:
    async def work() -> None:
        async with serve() as (address, _):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"\0\x03abc")
            assert await reader.read() == b""
            writer.close()

    run(work)


def test_client_that_reads_late_gets_all_responses() -> None:
    """The server stops to read while its responses are not read; none is lost."""

    async def work() -> None:
        async with serve() as (address, _):
            sock = socket.create_connection(address)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader, writer = await asyncio.open_connection(sock=sock)
            count = 3000
            sending = asyncio.create_task(_send(writer, framed(WEB) * count))
            for _ in range(count):
                assert lines(await read_response(reader)) == ANSWER
            await sending
            writer.close()

    run(work)


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


def test_free_port_is_the_same_for_both_protocols_and_a_taken_one_fails() -> None:
    pairs = bind_sockets(("127.0.0.1", "::1"), 0)
    ports = {one.getsockname()[1] for pair in pairs for one in pair}
    assert len(ports) == 1
    with pytest.raises(OSError, match="in use"):
        bind_sockets(("127.0.0.1",), ports.pop())
    for pair in pairs:
        for one in pair:
            one.close()
