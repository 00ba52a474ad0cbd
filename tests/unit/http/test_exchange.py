# SPDX-License-Identifier: Apache-2.0
"""Requests and their answers on one connection, byte for byte."""

import asyncio
import gzip
from typing import Any

import pytest

from kubeloop.http import HttpHooks, Request, Response, UpgradeResponse


async def body_of(client: Any, path: str) -> bytes:
    client.get(path)
    body: bytes = (await client.answer()).body
    return body


def test_connection_serves_sequential_requests(run, site):
    async def check() -> None:
        async with site() as s:
            client = await s.connect()
            assert await body_of(client, "/a%2Fb?x=1&y=%20") == b"GET /a%2Fb?x=1&y=%20 "
            assert await body_of(client, "/") == b"GET /? "

    run(check())


def test_response_has_type_length_date_and_custom_headers(run, site):
    async def handler(_: Request) -> Response:
        return Response(201, b"{}", "application/json", (("Audit-Id", "7"), ("Warning", "a\r\nSet-Cookie: b")))

    async def check() -> None:
        async with site(handler) as s:
            client = await s.connect()
            client.get("/")
            answer = await client.answer()
            assert answer.status == 201
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["content-length"] == "2"
            assert answer.headers["date"].endswith(" GMT")
            assert answer.headers["audit-id"] == "7"
            assert answer.headers["warning"] == "a  Set-Cookie: b"

    run(check())


def test_header_names_are_lowered_and_repeated_values_joined(run, site):
    seen: list[dict[str, str]] = []

    async def handler(request: Request) -> Response:
        seen.append(request.headers)
        return Response()

    async def check() -> None:
        async with site(handler) as s:
            client = await s.connect()
            for _ in range(2):
                client.get("/", "ACCEPT: a", "accept: b ", "X-Odd:\t c ", "Empty:")
                await client.answer()
        expected = {"host": "test", "accept": "a, b", "x-odd": "c", "empty": ""}
        assert seen == [expected, expected]

    run(check())


def test_trailers_are_not_headers(run, site):
    seen: list[dict[str, str]] = []

    async def handler(request: Request) -> Response:
        seen.append(request.headers)
        return Response()

    async def check() -> None:
        async with site(handler) as s:
            client = await s.connect()
            head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
            client.send(head + b"\r\n0\r\nX: y\r\n\r\n")
            await client.answer()
            client.send(head + b"X: y\r\n\r\n0\r\n\r\n")
            await client.answer()
        assert [headers.get("x") for headers in seen] == [None, "y"]

    run(check())


@pytest.mark.parametrize(
    "wire",
    [
        b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        b"POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    ],
    ids=["sized", "chunked"],
)
def test_body_is_reassembled_from_fragments(run, site, wire):
    async def check() -> None:
        async with site() as s:
            client = await s.connect()
            for at in range(1, len(wire), 7):
                client.send(wire[:at])
                await client.writer.drain()
                await asyncio.sleep(0)
                client.send(wire[at:])
                assert (await client.answer()).body == b"POST /p? hello"

    run(check())


def test_pipelined_requests_are_answered_in_order(run, site):
    async def handler(request: Request) -> Response:
        for _ in range(int(request.path[1:]) % 3):
            await asyncio.sleep(0)
        return Response(200, request.path.encode())

    async def check() -> None:
        async with site(handler) as s:
            client = await s.connect()
            for number in range(20):
                client.get(f"/{number}")
            assert [(await client.answer()).body for _ in range(20)] == [b"/%d" % number for number in range(20)]

    run(check())


def test_head_gets_the_length_without_the_body(run, site):
    async def check() -> None:
        async with site() as s:
            client = await s.connect()
            client.get("/", method="HEAD")
            assert (await client.answer(to_head=True)).headers["content-length"] == str(len("HEAD /? "))
            assert await body_of(client, "/next") == b"GET /next? "

    run(check())


def test_expect_100_continue_is_answered(run, site):
    async def check() -> None:
        async with site() as s:
            client = await s.connect()
            client.get("/", "Expect: 100-continue", "Content-Length: 2", method="PUT")
            assert (await client.head()).status == 100
            client.send(b"ok")
            assert (await client.answer()).body == b"PUT /? ok"

    run(check())


def test_continue_response_waits_for_earlier_responses(run, site):
    async def handler(request: Request) -> Response:
        await asyncio.sleep(0.01)
        return await _path(request)

    async def check() -> None:
        async with site(handler) as s:
            client = await s.connect()
            client.get("/first")
            client.get("/second", "Expect: 100-continue", "Content-Length: 2", method="PUT")
            assert (await client.answer()).body == b"/first"
            assert (await client.head()).status == 100
            client.send(b"ok")
            assert (await client.answer()).body == b"/second"

    run(check())


async def _path(request: Request) -> Response:
    return Response(200, request.path.encode())


@pytest.mark.parametrize(
    ("wire", "keeps"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True),
    ],
)
def test_connection_is_kept_or_closed_as_requested(run, site, wire, keeps):
    async def check() -> None:
        async with site() as s:
            client = await s.connect()
            client.send(wire)
            answer = await client.answer()
            assert answer.headers["connection"] == ("keep-alive" if keeps else "close")
            if not keeps:
                assert await client.rest() == b""

    run(check())


def test_failing_handler_is_answered_by_the_hook_and_the_connection_is_kept(run, site):
    async def handler(request: Request) -> Response:
        if request.path == "/later":
            await asyncio.sleep(0)
        raise ValueError(request.path)

    async def check() -> None:
        hooks = HttpHooks(on_error=lambda request, error: Response(500, repr(error).encode()))
        async with site(handler, hooks=hooks) as s:
            client = await s.connect()
            assert await body_of(client, "/now") == b"ValueError('/now')"
            assert await body_of(client, "/later") == b"ValueError('/later')"

    run(check())


def test_handler_without_response_closes_its_connection_only(run, site):
    errors: list[BaseException] = []

    async def handler(request: Request) -> Response:
        return None if request.path == "/bad" else Response()  # type: ignore[return-value]

    def on_error(_: Request, error: BaseException) -> Response:
        errors.append(error)
        return Response(500)

    async def check() -> None:
        async with site(handler, hooks=HttpHooks(on_error=on_error)) as s:
            client, other = await s.connect(), await s.connect()
            client.get("/bad")
            assert await client.rest() == b""
            assert await body_of(other, "/good") == b""
        assert len(errors) == 1

    run(check())


def test_large_response_is_sent_in_parts_while_others_are_served(run, site):
    parts = [b"%06d" % number * 600 for number in range(3000)]

    async def handler(request: Request) -> Response:
        return Response(200, parts if request.path == "/list" else b"small")

    async def check() -> None:
        async with site(handler) as s:
            slow, quick = await s.connect(), await s.connect()
            slow.get("/list")
            slow.get("/after")
            head = await slow.head()
            assert int(head.headers["content-length"]) == sum(map(len, parts))
            assert await body_of(quick, "/") == b"small"  # the slow one has read nothing yet
            assert await slow.reader.readexactly(sum(map(len, parts))) == b"".join(parts)
            assert (await slow.answer()).body == b"small"

    run(check())


def test_large_json_response_is_compressed_on_request(run, site):
    body = b'{"kind":"PodList"}' * 20_000

    async def handler(request: Request) -> Response:
        return Response(200, [body, body] if request.path == "/parts" else body)

    async def check() -> None:
        async with site(handler) as s:
            client = await s.connect()
            for path, expected in (("/", body), ("/parts", body * 2)):
                client.get(path, "Accept-Encoding: deflate, gzip")
                answer = await client.answer()
                assert answer.headers["content-encoding"] == "gzip"
                assert answer.headers["vary"] == "Accept-Encoding"
                assert gzip.decompress(answer.body) == expected
            client.get("/", "Accept-Encoding: identity")
            assert (await client.answer()).body == body

    run(check())


def test_upgraded_connection_is_handed_over(run, site):
    class GreetingProtocol(asyncio.Protocol):
        def __init__(self, transport: asyncio.Transport) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            self.transport.write(data.upper())

    def take_over(transport: asyncio.Transport, early: bytes) -> None:
        protocol = GreetingProtocol(transport)
        transport.set_protocol(protocol)
        protocol.data_received(early)

    async def handler(request: Request) -> Response:
        assert request.upgrade
        await asyncio.sleep(0)
        return UpgradeResponse(take_over, (("Connection", "Upgrade"), ("Upgrade", "shout")))

    async def check() -> None:
        async with site(handler) as s:
            client = await s.connect()
            client.get("/", "Connection: Upgrade", "Upgrade: shout")
            client.send(b"early ")
            assert (await client.head()).status == 101
            client.send(b"late")
            assert await client.reader.readexactly(10) == b"EARLY LATE"

    run(check())


def test_a_declined_upgrade_is_answered_and_closed(run, site):
    async def check() -> None:
        async with site() as s:
            client = await s.connect()
            client.get("/", "Connection: Upgrade", "Upgrade: h2c")
            answer = await client.answer()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert await client.rest() == b""

    run(check())


@pytest.mark.parametrize(("method", "ends"), [("GET", "cancelled"), ("PATCH", "finished")])
def test_disconnected_client_cancels_reads_but_not_writes(run, site, method, ends):
    async def check() -> None:
        started, go_on, over = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop().create_future()

        async def handler(_: Request) -> Response:
            started.set()
            try:
                await go_on.wait()
                over.set_result("finished")
            except asyncio.CancelledError:
                over.set_result("cancelled")
                raise
            return Response()

        async with site(handler) as s:
            client = await s.connect()
            client.get("/", method=method)
            await started.wait()
            await client.close()
            if method != "GET":
                go_on.set()
            assert await over == ends

    run(check())


def test_of_repeated_credentials_and_media_types_the_first_counts(run, site):
    async def handler(request: Request) -> Response:
        shown = (request.headers[name] for name in ("authorization", "content-type", "x-other"))
        return Response(200, "|".join(shown).encode())

    async def check() -> None:
        async with site(handler) as s:
            client = await s.connect()
            twice = (
                "Authorization: a",
                "Authorization: b",
                "Content-Type: c",
                "Content-Type: d",
                "X-Other: e",
                "X-Other: f",
            )
            client.get("/", *twice)
            assert (await client.answer()).body == b"a|c|e, f"

    run(check())
