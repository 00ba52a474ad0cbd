# SPDX-License-Identifier: Apache-2.0
"""Tests of every limit over a socket: the offender is answered or dropped, and the server continues."""

import asyncio
import socket

import pytest

from kubeloop.http import HttpHooks, HttpLimits, Request, Response

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"


def small(**bounds: float) -> HttpLimits:
    return HttpLimits(**({"head_bytes": 4096, "body_bytes": 1000, "linger_timeout": 0.1} | bounds))  # type: ignore[arg-type]


async def refusal(s, wire: bytes) -> tuple[int, bytes]:
    """Return the response before the connection is closed, and check that another client is served."""
    client = await s.connect()
    client.send(wire)
    answer = await client.answer()
    assert answer.headers["connection"] == "close"
    assert await client.rest() == b""
    other = await s.connect()
    other.get("/")
    assert (await other.answer()).status == 200
    return answer.status, answer.body


@pytest.mark.parametrize(
    ("wire", "status"),
    [
        (HEAD + b"X: " + b"x" * 5000 + b"\r\n\r\n", 431),
        (HEAD + b"X: " + b"x" * 300_000, 431),
        (b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 431),
        (HEAD + b"A: b\r\n" * 1000 + b"\r\n", 431),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001, 413),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 2_000_000, 413),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: gifts\r\n\r\n", 417),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (HEAD + b"Host: b\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (HEAD + b"Content-Length: -1\r\n\r\n", 400),
        (HEAD + b"Connection: Upgrade\r\nUpgrade: a\r\nContent-Length: 4\r\n\r\nbody", 400),
    ],
)
def test_malformed_or_too_large_requests_are_rejected(run, site, wire, status):
    async def check() -> None:
        async with site(limits=small()) as s:
            assert (await refusal(s, wire))[0] == status

    run(check())


def test_the_number_of_headers_is_bounded(run, site):
    async def check() -> None:
        async with site(limits=HttpLimits(header_fields=20, linger_timeout=0.1)) as s:
            assert (await refusal(s, HEAD + b"A: b\r\n" * 20 + b"\r\n"))[0] == 431

    run(check())


def test_rejections_have_the_owners_message(run, site):
    async def check() -> None:
        hooks = HttpHooks(reject=lambda status, message: Response(status, f'{{"message":"{message}"}}'.encode()))
        async with site(limits=HttpLimits(), hooks=hooks) as s:
            wire = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n"
            assert await refusal(s, wire) == (413, b'{"message":"Request entity too large: limit is 3145728"}')

    run(check())


def test_unbounded_chunk_extensions_and_trailers_are_rejected(run, site):
    async def check() -> None:
        start = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        async with site(limits=small()) as s:
            for endless in (b"1;" + b"e" * 600_000, b"0\r\nT: " + b"t" * 600_000):
                client = await s.connect()
                client.send(start)
                client.send(endless)
                assert (await client.answer()).status == 413

    run(check())


@pytest.mark.parametrize("partial", [HEAD, b"G", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nslow"])
def test_incomplete_request_returns_408(run, site, partial):
    async def check() -> None:
        async with site(limits=small(head_timeout=0.04, body_timeout=0.04)) as s:
            client = await s.connect()
            client.send(partial)
            assert (await client.answer()).status == 408
            assert await client.rest() == b""

    run(check())


def test_slow_bytes_do_not_extend_the_timeout(run, site):
    async def check() -> None:
        async with site(limits=small(head_timeout=0.05)) as s:
            client = await s.connect()
            client.send(HEAD)

            async def drip() -> None:
                while True:
                    client.send(b"X: y\r\n")
                    await asyncio.sleep(0.005)

            dripping = asyncio.create_task(drip())
            assert (await client.answer()).status == 408
            dripping.cancel()

    run(check())


@pytest.mark.parametrize("served_before", [False, True])
def test_idle_connection_is_closed_silently(run, site, until, served_before):
    async def check() -> None:
        async with site(limits=small(idle_timeout=3600)) as s:
            client = await s.connect()
            await until(lambda: s.server.connections == 1)
            if served_before:
                s.check_connections(3000)
                client.get("/")
                assert (await client.answer()).status == 200
            s.check_connections(3601)
            assert await client.rest() == b""

    run(check())


def test_a_slow_handler_is_not_an_idle_connection(run, site):
    async def check() -> None:
        entered, go_on = asyncio.Event(), asyncio.Event()

        async def handler(_: Request) -> Response:
            entered.set()
            await go_on.wait()
            return Response(200, b"done")

        async with site(handler) as s:
            client = await s.connect()
            client.get("/")
            await entered.wait()
            s.check_connections(86_400)
            go_on.set()
            assert (await client.answer()).body == b"done"

    run(check())


def test_connection_limit_is_reported(run, site):
    async def check() -> None:
        async with site(limits=small(connections=2)) as s:
            clients = [await s.connect() for _ in range(2)]
            for client in clients:
                client.get("/")
                assert (await client.answer()).status == 200
            third = await s.connect()
            assert (await third.answer()).status == 503
            assert await third.rest() == b""
            clients[0].get("/again")
            assert (await clients[0].answer()).status == 200

    run(check())


def test_excess_pipelined_requests_close_the_connection_after_accepted_ones(run, site):
    async def handler(request: Request) -> Response:
        await asyncio.sleep(0)
        return Response(200, request.path.encode())

    async def check() -> None:
        async with site(handler, small(pipelined=5)) as s:
            client = await s.connect()
            client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(20)))
            answers = [await client.answer() for _ in range(7)]
            assert [answer.body for answer in answers[:6]] == [b"/%d" % number for number in range(6)]
            assert answers[6].status == 429
            assert await client.rest() == b""

    run(check())


def test_rejection_follows_earlier_responses(run, site):
    async def handler(request: Request) -> Response:
        await asyncio.sleep(0)
        return Response(200, request.path.encode())

    async def check() -> None:
        async with site(handler, small()) as s:
            client = await s.connect()
            client.send(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\nrubbish\r\n\r\n")
            assert [(await client.answer()).status for _ in range(3)] == [200, 200, 400]

    run(check())


def test_peer_that_reads_nothing_is_dropped(run, site, until):
    async def handler(_: Request) -> Response:
        return Response(200, [b"x" * 100_000] * 300)

    async def check() -> None:
        async with site(handler, small(stall_timeout=0.05)) as s:
            deaf = socket.create_connection(("127.0.0.1", s.server.port))
            deaf.sendall(HEAD + b"\r\n")
            await until(lambda: s.server.connections == 1)
            await until(lambda: s.server.connections == 0)
            deaf.close()

    run(check())


def test_unread_pipelined_responses_are_bounded(run, site):
    started: list[str] = []

    async def handler(request: Request) -> Response:
        started.append(request.path)
        return Response(200, b"x" * 8_000_000)

    async def check() -> None:
        async with site(handler) as s:
            client = await s.connect()
            for number in range(50):
                client.get(f"/{number}")
            await client.head()
            assert len(started) < 10

    run(check())


@pytest.mark.parametrize(
    "wire",
    [
        b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n",
        b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001,
        b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 2_000_000,
    ],
)
def test_a_handler_may_reject_large_bodies_itself(run, site, wire):
    async def handle(request: Request) -> Response:
        await asyncio.sleep(0)  # the client goes on sending meanwhile
        return Response(418 if request.exceeded_body_limit else 200, f"{request.path} {len(request.body)}".encode())

    async def check() -> None:
        async with site(handle, limits=small(), hooks=HttpHooks(handles_large_bodies=True)) as s:
            assert await refusal(s, wire) == (418, b"/a 0")
            client = await s.connect()
            client.get("/earlier")
            client.send(wire)
            assert (await client.answer()).body == b"/earlier 0"
            assert (await client.answer()).body == b"/a 0"
            assert await client.rest() == b""

    run(check())
