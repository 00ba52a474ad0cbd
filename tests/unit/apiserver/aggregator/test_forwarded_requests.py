# SPDX-License-Identifier: Apache-2.0
"""Requests that a client manipulates on their way to an extension API server, and responses that server manipulates."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from kubeloop.apiserver.aggregator.proxy_identity import InvalidUserHeader, forwarded_headers, user_headers
from kubeloop.apiserver.request.context import User
from kubeloop.cli.pki.files import Pki, ensure_pki
from kubeloop.clock import SystemClock
from kubeloop.http import Request
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.apiserver.aggregator.conftest import REQUEST_TIMEOUT, AggregatorHarness, Scenario
from tests.unit.apiserver.aggregator.extension_server import ROOT

Play = Callable[[Scenario], None]
EDEN = f"{ROOT}/namespaces/default/gardens/eden"


async def send(env: AggregatorHarness, *lines: str) -> bytes:
    """Send the lines of a head, and return the response."""
    head = (*lines, "Host: x", "Authorization: Bearer admin-token", "", "")
    async with asyncio.timeout(GIVE_UP_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", env.server.port)
        try:
            writer.write("\r\n".join(head).encode())
            return await reader.read()
        finally:
            writer.close()


@pytest.mark.parametrize(
    "header",
    [
        "X-Remote-User", "x-remote-user", "X-REMOTE-GROUP", "X-Remote-Uid", "X-Remote-Extra-Scopes", "X-My-User",
        "x-my-group", "X-MY-EXTRA-SCOPES", "Proxy-Authorization", "X-Named",
    ],
)  # fmt: skip
def test_a_client_cannot_add_to_its_identity(play: Play, header: str) -> None:
    """Also with the names that --requestheader-* configures, which extension API servers believe as well."""

    async def scenario(env: AggregatorHarness) -> None:
        await env.available()
        answer = await send(env, f"GET {EDEN} HTTP/1.1", f"{header}: forged", "Connection: close, X-Named")
        assert answer.startswith(b"HTTP/1.1 200 ")
        sent = env.gardens.last.headers
        assert "forged" not in sent.values()
        assert sent["x-remote-user"] == "admin"
        assert sent["x-remote-group"] == "system:masters, system:authenticated"

    play(scenario)


def test_a_connection_header_cannot_remove_the_identity(play: Play) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        await env.available()
        removed = "Connection: close, X-Remote-User, X-Remote-Group, X-Remote-Extra-A"
        assert (await send(env, f"GET {EDEN} HTTP/1.1", removed)).startswith(b"HTTP/1.1 200 ")
        assert env.gardens.last.headers["x-remote-user"] == "admin"

    play(scenario)


def test_http_2_cannot_be_negotiated_through_the_proxy(play: Play) -> None:
    """The client could then send requests of any user through the connection of the proxy."""

    async def scenario(env: AggregatorHarness) -> None:
        await env.available()
        upgrade = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
        answer = await send(env, f"GET {EDEN} HTTP/1.1", *upgrade)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"invalid upgrade response: status code 200" in answer
        assert not {"upgrade", "http2-settings"} & set(env.gardens.last.headers)

    play(scenario)


@pytest.mark.parametrize("group", [" system:masters", "system:masters ", "a\nb", "a\rb", "\0", "\tx"])
def test_a_user_that_headers_would_change_is_not_forwarded(group: str) -> None:
    with pytest.raises(InvalidUserHeader, match='net/http: invalid header field value for "X-Remote-Group"'):
        list(user_headers(User("alice", (group,))))


def test_a_protocol_that_was_not_requested_is_not_relayed(play: Play) -> None:
    async def switch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        closed.set()

    closed = asyncio.Event()

    async def scenario(env: AggregatorHarness) -> None:
        await env.available()
        server = await asyncio.start_server(switch, "127.0.0.1", 0)
        remote = next(iter(env.server.app.aggregator.remotes.values()))
        port = server.sockets[0].getsockname()[1]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(remote, "_exchange", exchange_with(port))
            answer = await env.ask(EDEN)
        await closed.wait()
        server.close()
        assert answer.status == 503
        assert b'backend tried to switch protocol "echo" when "" was requested' in bytes(answer.body)  # type: ignore[arg-type]

    play(scenario)


def exchange_with(port: int) -> Any:
    from kubeloop.apiserver.aggregator.dialer import dial

    async def exchange(*_: object) -> Any:
        connection = await dial("127.0.0.1", port, None, "", 5)
        return connection, await connection.exchange(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")

    return exchange


def test_a_changed_proxy_certificate_is_used(play: Play, pki: Pki, tmp_path: Any) -> None:
    other = ensure_pki(tmp_path / "other", ["127.0.0.1"], SystemClock().now())
    pairs = [
        (pki.front_proxy_certificate, other.front_proxy_certificate),
        (pki.front_proxy_key, other.front_proxy_key),
    ]
    originals = [own.read_bytes() for own, _ in pairs]

    async def scenario(env: AggregatorHarness) -> None:
        await env.available()
        assert (await env.ask(EDEN)).status == 200
        for own, foreign in pairs:
            own.write_bytes(foreign.read_bytes())
        assert (await env.ask(EDEN)).status == 503
        for (own, _), content in zip(pairs, originals, strict=True):
            own.write_bytes(content)
        assert (await env.ask(EDEN)).status == 200

    play(scenario)


def test_an_invalid_proxy_certificate_is_ignored(play: Play, pki: Pki) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        await env.available()
        pki.front_proxy_key.write_text("no key")
        assert (await env.ask(EDEN)).status == 200

    play(scenario)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_silent_extension_server_is_a_timeout(play: Play, method: str) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        await env.available()
        env.gardens.pause = asyncio.Event()
        began = asyncio.get_running_loop().time()
        body = {} if method == "POST" else None
        async with asyncio.timeout(GIVE_UP_SECONDS):
            answer = await env.ask(f"{ROOT}/namespaces/default/gardens", body)
        assert asyncio.get_running_loop().time() - began >= REQUEST_TIMEOUT
        status = json.loads(bytes(answer.body))  # type: ignore[arg-type]
        assert (answer.status, status["reason"]) == (504, "Timeout")
        env.gardens.pause.set()

    play(scenario)


def test_repeated_headers_are_forwarded_together() -> None:
    request = Request("GET", "/", "", {"accept": "a, b", "connection": "x-one , X-Two", "x-one": "1", "x-two": "2"})
    assert dict(forwarded_headers(request, "")) == {"accept": "a, b"}
