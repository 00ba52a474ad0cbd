# SPDX-License-Identifier: Apache-2.0
"""Watches and logs over WebSockets, as browsers and the clients of some languages open them."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pytest

from kubeloop.api.protobuf import decode_object, open_envelope
from kubeloop.http import Request, Response, UpgradeResponse
from kubeloop.protobuf_wire import iter_fields
from tests.unit.apiserver.conftest import Api
from tests.unit.apiserver.streaming.fake_transport import FakeTransport, masked

CONFIG_MAPS = "/api/v1/namespaces/shop/configmaps"
HEADERS = {
    "authorization": "Bearer admin",
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "origin": "http://example.org",
}
TEXT, BINARY, CLOSE = 1, 2, 8


class BufferedTransport(FakeTransport):
    """A wire that can be clogged and broken off."""

    def __init__(self) -> None:
        super().__init__()
        self.buffered = 0
        self.is_aborted = False

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def abort(self) -> None:
        self.is_aborted = True


async def opened(
    api: Api, query: str = "watch=1", path: str = CONFIG_MAPS, **headers: str | None
) -> tuple[Response, BufferedTransport]:
    changed = HEADERS | {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
    kept = {name: value for name, value in changed.items() if headers.get(name.replace("-", "_"), "") is not None}
    request = Request("GET", path, query, kept)
    request.upgrade = True
    response = await api.server.handle(request)
    wire = BufferedTransport()
    if isinstance(response, UpgradeResponse):
        response.take_over(wire, b"")  # type: ignore[arg-type]  # has what a watch calls
    return response, wire


def frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        opcode, length, at = data[at] & 0x0F, data[at + 1], at + 2
        if length > 125:
            size = 2 if length == 126 else 8
            length, at = int.from_bytes(data[at : at + size], "big"), at + size
        yield opcode, data[at : at + length]
        at += length


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # the wire has no event for it
            await asyncio.sleep(0)


def in_server(api: Api, test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    api._runner.run(test())


def test_events_are_text_messages_until_the_timeout_closes_the_watch(api) -> None:
    api.made(CONFIG_MAPS, {"metadata": {"name": "a"}})

    async def test() -> None:
        response, wire = await opened(api, "watch=1&timeoutSeconds=1")
        assert response.status == 101
        assert ("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") in response.headers
        await until(lambda: bool(wire.sent))
        await api._answer("POST", CONFIG_MAPS, {"metadata": {"name": "b"}}, {})
        await wire.until_closed()
        *events, last = frames(wire.sent)
        assert [opcode for opcode, _ in events] == [TEXT, TEXT]
        assert all(payload.endswith(b"\n") for _, payload in events)
        told = [json.loads(payload) for _, payload in events]
        assert [(one["type"], one["object"]["metadata"]["name"]) for one in told] == [("ADDED", "a"), ("ADDED", "b")]
        assert last == (CLOSE, (1000).to_bytes(2, "big"))

    in_server(api, test)


def test_protobuf_events_are_binary_messages_without_a_length(api) -> None:
    api.made(CONFIG_MAPS, {"metadata": {"name": "a"}})

    async def test() -> None:
        _, wire = await opened(api, accept="application/vnd.kubernetes.protobuf")
        await until(lambda: bool(wire.sent))
        [(opcode, payload)] = frames(wire.sent)
        parts = {number: content for number, _, content in iter_fields(payload, "WatchEvent")}
        raw = {number: content for number, _, content in iter_fields(parts[2], "RawExtension")}[1]
        assert (opcode, parts[1]) == (BINARY, b"ADDED")
        assert decode_object(*open_envelope(raw))["metadata"]["name"] == "a"
        wire.receive(masked(b"", CLOSE))

    in_server(api, test)


def test_a_client_that_closes_or_leaves_ends_its_watch(api) -> None:
    async def test() -> None:
        hub = api.registry.storage_of(next(one for one in api.server._built_in if one.plural == "configmaps")).hub
        for leave in (lambda wire: wire.receive(masked(b"", CLOSE)), lambda wire: wire.lose()):
            _, wire = await opened(api)
            await until(lambda: hub.watchers == 1)
            wire.receive(masked(b"ignored", TEXT))
            leave(wire)
            await until(lambda: hub.watchers == 0)

    in_server(api, test)


def test_a_client_that_falls_behind_is_cut_off(api) -> None:
    async def test() -> None:
        _, wire = await opened(api)
        wire.buffered = 1 << 30
        await api._answer("POST", CONFIG_MAPS, {"metadata": {"name": "a"}}, {})
        await until(lambda: wire.is_aborted)

    in_server(api, test)


def test_an_old_version_is_told_in_an_error_event(api) -> None:
    for number in range(3):
        api.made(CONFIG_MAPS, {"metadata": {"name": f"m{number}"}})
    api.store.compact(3)

    async def test() -> None:
        _, wire = await opened(api, "watch=1&resourceVersion=1")
        await wire.until_closed()
        (opcode, payload), _ = frames(wire.sent)
        told = json.loads(payload)
        assert (opcode, told["type"], told["object"]["code"]) == (TEXT, "ERROR", 410)

    in_server(api, test)


@pytest.mark.parametrize(
    ("headers", "status", "body"),
    [
        ({"sec_websocket_version": "12"}, 400, b"missing or bad WebSocket Version"),
        ({"sec_websocket_key": None}, 400, b"mismatch challenge/response"),
        ({"origin": None}, 403, b""),
        ({"origin": "::bad"}, 403, b""),
        ({"sec_websocket_protocol": "foo, bar"}, 400, b""),
    ],
)
def test_a_bad_handshake_is_refused_as_upstream(api, headers, status, body) -> None:
    async def test() -> None:
        response, _ = await opened(api, **headers)
        assert (response.status, response.body) == (status, body)

    in_server(api, test)


def test_the_only_offered_protocol_is_chosen(api) -> None:
    async def test() -> None:
        response, wire = await opened(api, sec_websocket_protocol="foo")
        assert ("Sec-WebSocket-Protocol", "foo") in response.headers
        wire.lose()

    in_server(api, test)


def test_a_watch_as_yaml_is_not_acceptable(api) -> None:
    answer = api.get(f"{CONFIG_MAPS}?watch=1", accept="application/yaml")
    assert answer.status == 406
    assert b"only the following media types are accepted: application/json;stream=watch" in answer.body


class LoggingNode:
    """Node of the server's process whose containers have written a line and a long text."""

    def can_reach(self, node: str) -> bool:
        return True

    async def logs(self, *_: Any) -> AsyncIterator[bytes]:
        yield b"alive\n"
        yield b"x" * 3000


LOG = [b"", b"alive\n", b"x" * 2048, b"x" * 952]


@pytest.mark.parametrize(
    ("offered", "chosen", "opcode", "messages"),
    [
        (None, None, BINARY, LOG),
        ("binary.k8s.io", "binary.k8s.io", BINARY, LOG),
        ("other, base64.binary.k8s.io", "base64.binary.k8s.io", TEXT, [b64encode(piece) for piece in LOG]),
    ],
)
def test_logs_are_messages_after_an_empty_one(
    api, pods, offered: str | None, chosen: str | None, opcode: int, messages: list[bytes]
) -> None:
    api.server.nodes.add_local(LoggingNode())
    path = pods("p", nodeName="n1")

    async def test() -> None:
        response, wire = await opened(api, "", f"{path}/log", sec_websocket_protocol=offered)
        assert response.status == 101
        assert dict(response.headers).get("Sec-WebSocket-Protocol") == chosen
        await wire.until_closed()
        *sent, last = frames(wire.sent)
        assert sent == [(opcode, message) for message in messages]
        assert last[0] == CLOSE

    in_server(api, test)


def test_log_handshake_with_unknown_protocols_is_rejected(api, pods) -> None:
    api.server.nodes.add_local(LoggingNode())
    path = pods("p", nodeName="n1")

    async def test() -> None:
        response, _ = await opened(api, "", f"{path}/log", sec_websocket_protocol="channel.k8s.io")
        assert response.status == 403

    in_server(api, test)
