# SPDX-License-Identifier: Apache-2.0
"""A client among servers that misbehave: late, broken, cut off, too busy."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.client import Client
from kubeloop.client.config.server_config import ImpersonationConfig, ServerConfig
from kubeloop.client.errors import CallTimeout, ConnectError, ConnectionLost, ProtocolError
from kubeloop.client.http.transport import HttpTransport
from kubeloop.client.metrics import NoClientMetrics
from kubeloop.clock import SystemClock
from tests.unit.client.raw_server import NODE, STREAM, Peer, Script, answer, chunked, client_of, raw_server

NEW_NODE = Node(metadata=ObjectMeta(name="n"))


def run(main: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(main())  # type: ignore[arg-type]  # a coroutine function


def always(*pieces: bytes) -> Script:
    """A server that gives every request the same answer, in these pieces."""

    async def script(peer: Peer, number: int) -> None:
        while True:
            await peer.request()
            await peer.say(*pieces)

    return script


def in_turn(*answers: bytes) -> Script:
    """A server that gives the first request the first answer, and so on; the last one for ever."""
    left = list(answers)

    async def script(peer: Peer, number: int) -> None:
        while True:
            await peer.request()
            await peer.say(left.pop(0) if len(left) > 1 else left[0])

    return script


def test_a_connection_serves_many_calls() -> None:
    async def main() -> None:
        async with raw_server(always(answer(NODE))) as server, client_of(server.port) as client:
            for _ in range(3):
                assert (await client.get(Node, "n")).metadata.name == "n"
            assert (server.connections, len(server.heads)) == (1, 3)

    run(main)


def test_response_may_arrive_byte_by_byte() -> None:
    body = answer(NODE.replace(b'"n"', '"ñ"'.encode()))

    async def main() -> None:
        pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
        async with raw_server(always(*pieces)) as server, client_of(server.port) as client:
            assert (await client.get(Node, "n")).metadata.name == "ñ"

    run(main)


def test_body_may_be_chunked_compressed_or_end_with_the_connection() -> None:
    packed = gzip.compress(NODE)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)

    async def until_close(peer: Peer, number: int) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\n\r\n" + NODE)

    async def main() -> None:
        scripts = [
            always(STREAM, chunked(NODE[:20]), chunked(NODE[20:]), b"0\r\n\r\n"),
            always(head + packed[:30], packed[30:]),
            until_close,
        ]
        for script in scripts:
            async with raw_server(script) as server, client_of(server.port) as client:
                assert (await client.get(Node, "n")).metadata.name == "n"
                assert (await client.get(Node, "n")).metadata.resource_version == "5"

    run(main)


def test_interim_responses_are_skipped() -> None:
    async def main() -> None:
        script = always(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", answer(NODE))
        async with raw_server(script) as server, client_of(server.port) as client:
            assert (await client.get(Node, "n")).metadata.name == "n"

    run(main)


def test_retry_after_is_honored() -> None:
    busy = answer(b"", "503 Service Unavailable", ["Retry-After: 1"])

    async def main() -> None:
        async with raw_server(in_turn(busy, answer(NODE, "201 Created"))) as server, client_of(server.port) as client:
            assert (await client.create(NEW_NODE)).metadata.name == "n"
            assert len(server.heads) == 2

    run(main)


def test_failure_without_retry_after_is_final() -> None:
    async def main() -> None:
        script = always(answer(b"boom", "500 Internal Server Error"))
        async with raw_server(script) as server, client_of(server.port) as client:
            with pytest.raises(errors.InternalError, match="boom"):
                await client.get(Node, "n")
            assert len(server.heads) == 1

    run(main)


def test_wait_beyond_the_deadline_is_not_started() -> None:
    async def main() -> None:
        script = always(answer(b"", "429 Too Many Requests", ["Retry-After: 60"]))
        async with raw_server(script) as server, client_of(server.port) as client:
            with pytest.raises(errors.TooManyRequests):
                await client.with_timeout(5).get(Node, "n")

    run(main)


def test_read_survives_a_stale_connection() -> None:
    async def script(peer: Peer, number: int) -> None:
        await peer.request()
        await peer.say(answer(NODE))
        if number == 0:
            await peer.request()
            peer.reset()
        await peer.gone()

    async def main() -> None:
        async with raw_server(script) as server, client_of(server.port) as client:
            await client.get(Node, "n")
            assert (await client.get(Node, "n")).metadata.name == "n"
            assert server.connections == 2

    run(main)


def test_write_on_a_broken_connection_is_not_repeated() -> None:
    async def script(peer: Peer, number: int) -> None:
        await peer.request()
        peer.reset()

    async def main() -> None:
        async with raw_server(script) as server, client_of(server.port) as client:
            with pytest.raises(ConnectionLost):
                await client.create(NEW_NODE)
            assert len(server.heads) == 1

    run(main)


def test_an_idle_connection_that_the_server_closed_is_not_used() -> None:
    async def script(peer: Peer, number: int) -> None:
        await peer.request()
        await peer.say(answer(NODE))

    async def main() -> None:
        async with raw_server(script) as server:
            transport = HttpTransport(ServerConfig(f"http://127.0.0.1:{server.port}"), SystemClock(), environ={})
            client = Client(transport)
            await client.get(Node, "n")
            while transport._pool.size:  # noqa: ASYNC110  # until the hang-up has arrived
                await asyncio.sleep(0)
            assert (await client.create(NEW_NODE)).metadata.name == "n"
            assert server.connections == 2
            await client.close()

    run(main)


@pytest.mark.parametrize(
    "pieces",
    [(), (b"HTTP/1.1 200 OK\r\n",), (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nslow",)],
    ids=["silence", "half a head", "half a body"],
)
def test_timeout_is_enforced(pieces: tuple[bytes, ...]) -> None:
    async def script(peer: Peer, number: int) -> None:
        await peer.request()
        await peer.say(*pieces)
        await peer.gone()

    async def main() -> None:
        async with raw_server(script) as server, client_of(server.port) as client:
            with pytest.raises(CallTimeout, match=r"^get nodes n: no response within 0\.05 s$"):
                await client.with_timeout(0.05).get(Node, "n")

    run(main)


def test_watch_start_timeout_is_enforced() -> None:
    async def script(peer: Peer, number: int) -> None:
        await peer.request()
        await peer.gone()

    async def main() -> None:
        async with raw_server(script) as server, client_of(server.port) as client:
            with pytest.raises(CallTimeout):
                await anext(client.with_timeout(0.05).watch(Node))

    run(main)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not HTTP"),
        (answer(b"<html>"), "not a Node"),
        (answer(b'{"metadata":{"name":7}}'), "not a Node"),
        (answer(b"x", headers=["Content-Encoding: br"]), "content encoding br"),
        (answer(b"x", headers=["Content-Encoding: gzip"]), "compressed body of the response is invalid"),
        (b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "another protocol"),
    ],
)
def test_invalid_response_is_reported(said: bytes, why: str) -> None:
    async def main() -> None:
        async with raw_server(always(said)) as server, client_of(server.port) as client:
            with pytest.raises(ProtocolError, match=why):
                await client.get(Node, "n")

    run(main)


def test_excess_response_data_closes_the_connection() -> None:
    async def main() -> None:
        async with raw_server(always(answer(NODE) + answer(NODE))) as server, client_of(server.port) as client:
            for _ in range(2):
                assert (await client.get(Node, "n")).metadata.name == "n"
            assert server.connections == 2

    run(main)


def test_plain_text_error_is_classified_by_its_code() -> None:
    async def main() -> None:
        async with raw_server(always(answer(b"nope", "404 Not Found"))) as server, client_of(server.port) as client:
            with pytest.raises(errors.NotFound, match="could not find the requested resource"):
                await client.get(Node, "n")

    run(main)


def test_unreachable_server_is_a_connect_error() -> None:
    async def main() -> None:
        async with raw_server(always()) as server:
            port = server.port
        async with client_of(port) as client:
            with pytest.raises(ConnectError, match=f"no connection to 127.0.0.1:{port}"):
                await client.get(Node, "n")

    run(main)


EVENTS = b"".join(
    b'{"type":"%b","object":{"metadata":{"name":"\xc3\xb1","resourceVersion":"%d"}}}\n' % (kind, at)
    for at, kind in enumerate((b"ADDED", b"MODIFIED", b"DELETED"), 7)
)


def test_watch_events_may_be_split_anywhere() -> None:
    pieces = [chunked(EVENTS[at : at + 13]) for at in range(0, len(EVENTS), 13)]

    async def main() -> None:
        async with raw_server(always(STREAM, *pieces, b"0\r\n\r\n")) as server, client_of(server.port) as client:
            events = [event async for batch in client.watch(Node) for event in batch]
            assert [(one.type, one.object.metadata.name, one.resource_version) for one in events] == [
                ("ADDED", "ñ", "7"),
                ("MODIFIED", "ñ", "8"),
                ("DELETED", "ñ", "9"),
            ]

    run(main)


def test_simultaneous_events_are_one_batch() -> None:
    async def main() -> None:
        script = always(STREAM + chunked(EVENTS) + b"0\r\n\r\n")
        async with raw_server(script) as server, client_of(server.port) as client:
            assert [len(batch) async for batch in client.watch(Node)] == [3]
            assert "watch=true" in server.heads[0]

    run(main)


def test_error_in_a_watch_follows_earlier_events() -> None:
    status = b'{"kind":"Status","status":"Failure","message":"too old","reason":"Expired","code":410}'
    body = EVENTS + b'{"type":"ERROR","object":%b}\n' % status

    async def main() -> None:
        async with raw_server(always(STREAM + chunked(body))) as server, client_of(server.port) as client:
            watch = client.watch(Node)
            assert len(await anext(watch)) == 3
            with pytest.raises(errors.Expired, match="too old"):
                await anext(watch)

    run(main)


@pytest.mark.parametrize("last", [b"", chunked(EVENTS[:30])])
def test_broken_watch_raises_an_error(last: bytes) -> None:
    async def script(peer: Peer, number: int) -> None:
        await peer.request()
        await peer.say(STREAM + chunked(EVENTS), last)
        peer.reset()

    async def main() -> None:
        async with raw_server(script) as server, client_of(server.port) as client:
            with pytest.raises(ConnectionLost):
                _ = [batch async for batch in client.watch(Node)]

    run(main)


def test_slow_watcher_applies_backpressure() -> None:
    line = b'{"type":"ADDED","object":{"metadata":{"name":"%b"}}}\n' % (b"x" * 100_000)
    sent = 0

    async def script(peer: Peer, number: int) -> None:
        nonlocal sent
        await peer.request()
        peer.writer.transport.set_write_buffer_limits(high=0)
        await peer.say(STREAM)
        for _ in range(200):
            peer.writer.write(chunked(line))
            await peer.writer.drain()
            sent += 1
        await peer.say(b"0\r\n\r\n")

    async def main() -> None:
        async with raw_server(script) as server, client_of(server.port) as client:
            watch = client.watch(Node)
            heard = len(await anext(watch))
            await asyncio.sleep(0.2)
            assert sent < 200
            async for batch in watch:
                heard += len(batch)
            assert heard == 200

    run(main)


def test_closed_watch_releases_its_connection() -> None:
    left = asyncio.Event()

    async def script(peer: Peer, number: int) -> None:
        await peer.request()
        await peer.say(STREAM + chunked(EVENTS))
        await peer.gone()
        left.set()

    async def main() -> None:
        async with raw_server(script) as server, client_of(server.port) as client:
            watch = client.watch(Node)
            await anext(watch)
            await watch.aclose()  # type: ignore[attr-defined]  # an async generator
            await left.wait()

    run(main)


def test_busy_server_is_retried_for_a_watch() -> None:
    busy = answer(b"", "429 Too Many Requests", ["Retry-After: 1"])

    async def main() -> None:
        script = in_turn(busy, STREAM + chunked(EVENTS) + b"0\r\n\r\n")
        async with raw_server(script) as server, client_of(server.port) as client:
            assert [len(batch) async for batch in client.watch(Node)] == [3]

    run(main)


def test_log_is_streamed_by_line() -> None:
    pieces = [chunked(piece) for piece in (b"eins\nzw", b"ei\ngr\xc3", b"\xbcn", b"\nlast")]

    async def main() -> None:
        async with raw_server(always(STREAM, *pieces, b"0\r\n\r\n")) as server, client_of(server.port) as client:
            lines = [line async for line in client.stream_logs("p", "ns", container="c", follow=True, tail_lines=0)]
            assert lines == ["eins", "zwei", "grün", "last"]
            path = "GET /api/v1/namespaces/ns/pods/p/log?container=c&follow=true&tailLines=0 HTTP/1.1"
            assert server.heads[0].startswith(path)

    run(main)


def test_requests_have_user_agent_and_cause() -> None:
    whom = ImpersonationConfig("jane", "u1", ("devs", "ops"), {"example.com/Reason": ("x",)})

    async def main() -> None:
        async with (
            raw_server(always(answer(NODE, "201 Created"))) as server,
            client_of(server.port, token="t0k3n", impersonation=whom) as client,
        ):
            await client.with_user_agent("me/1").with_cause("rs default/web\nné").create(NEW_NODE)
        head = server.heads[0].split("\r\n")
        assert head[0] == "POST /api/v1/nodes HTTP/1.1"
        assert {
            "User-Agent: me/1",
            "Authorization: Bearer t0k3n",
            "Kubeloop-Cause: rs default/web%0An%C3%A9",
            "Impersonate-User: jane",
            "Impersonate-Uid: u1",
            "Impersonate-Group: devs",
            "Impersonate-Group: ops",
            "Impersonate-Extra-example.com%2FReason: x",
        } <= set(head)

    run(main)


def test_warnings_are_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    warnings = ['Warning: 299 - "unknown field \\"x\\""', 'Warning: 299 kube "second, with comma"']

    async def main() -> None:
        async with raw_server(always(answer(NODE, headers=warnings))) as server, client_of(server.port) as client:
            await client.get(Node, "n")

    run(main)
    assert [record.getMessage() for record in caplog.records] == ['unknown field "x"', "second, with comma"]


def test_rotated_token_is_used_for_the_next_call(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")

    async def main() -> None:
        async with (
            raw_server(always(answer(NODE))) as server,
            client_of(server.port, token_file=str(token)) as client,
        ):
            await client.get(Node, "n")
            (tmp_path / "new").write_text("two\n")
            (tmp_path / "new").rename(token)
            await client.get(Node, "n")
        assert "Bearer one\r\n" in server.heads[0]
        assert "Bearer two\r\n" in server.heads[1]

    run(main)


def test_rejected_token_is_replaced_by_a_newer_one(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")

    async def script(peer: Peer, number: int) -> None:
        while True:
            head = await peer.request()
            token.write_text("other")
            await peer.say(answer(NODE) if "other" in head else answer(b"", "401 Unauthorized"))

    async def main() -> None:
        async with raw_server(script) as server, client_of(server.port, token_file=str(token)) as client:
            assert (await client.get(Node, "n")).metadata.name == "n"
            assert len(server.heads) == 2

    run(main)


def test_rejected_single_token_is_unauthorized() -> None:
    async def main() -> None:
        async with raw_server(always(answer(b"", "401 Unauthorized"))) as server:
            async with client_of(server.port, token="old") as client:
                with pytest.raises(errors.Unauthorized):
                    await client.get(Node, "n")
            assert len(server.heads) == 1

    run(main)


def test_close_cancels_waiting_calls() -> None:
    asked = asyncio.Event()

    async def script(peer: Peer, number: int) -> None:
        await peer.request()
        asked.set()
        await peer.gone()

    async def main() -> None:
        async with raw_server(script) as server, client_of(server.port) as client:
            waiting = asyncio.create_task(client.create(NEW_NODE))
            await asked.wait()
            await client.close()
            with pytest.raises(ConnectionLost):
                await waiting

    run(main)


def test_every_attempt_is_reported_to_metrics() -> None:
    class RecordingMetrics(NoClientMetrics):
        def __init__(self) -> None:
            self.told: list[tuple[object, ...]] = []

        def request(self, method: str, code: str) -> None:
            self.told.append((method, code))

        def sizes(self, verb: str, sent: int, received: int) -> None:
            self.told.append((verb, sent, received))

    async def script(peer: Peer, number: int) -> None:
        await peer.request()
        await peer.say(answer(NODE))
        await peer.request()
        peer.reset()

    async def main() -> None:
        noted = RecordingMetrics()
        async with raw_server(script) as server:
            config = ServerConfig(f"http://127.0.0.1:{server.port}")
            async with Client(HttpTransport(config, SystemClock(), environ={}, metrics=noted)) as client:
                await client.get(Node, "n")
                with pytest.raises(ConnectionLost):
                    await client.delete(Node, "n")
        assert noted.told == [("GET", "200"), ("get", 0, len(NODE)), ("DELETE", "<error>")]

    run(main)
