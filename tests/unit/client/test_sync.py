# SPDX-License-Identifier: Apache-2.0
"""The client without async: the same methods, blocking."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import Node
from kubeloop.client import Client, SyncClient
from kubeloop.client.config.server_config import ServerConfig
from kubeloop.client.errors import UsageError
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.client.raw_server import NODE, STREAM, Peer, RawServer, answer, chunked

EVENT = b'{"type":"ADDED","object":%b}\n' % NODE


async def _script(peer: Peer, number: int) -> None:
    while True:
        head = await peer.request()
        if "watch=true" in head:
            await peer.say(STREAM + chunked(EVENT), chunked(EVENT))
            await peer.gone()
        missing = answer(b"", "404 Not Found")
        await peer.say(missing if "/missing" in head else answer(NODE))


@contextmanager
def server() -> Iterator[RawServer]:
    """Server in its own event loop, since the test has none."""
    raw, loop, started = RawServer(_script), asyncio.new_event_loop(), threading.Event()

    async def main() -> None:
        listener = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
        raw.port = listener.sockets[0].getsockname()[1]
        started.set()
        await stopped.wait()
        listener.close()

    stopped = asyncio.Event()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(main())

    thread = threading.Thread(target=run)
    thread.start()
    started.wait(GIVE_UP_SECONDS)
    try:
        yield raw
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(GIVE_UP_SECONDS)


def test_calls_block_views_work_and_errors_are_the_same() -> None:
    with server() as raw, SyncClient(ServerConfig(f"http://127.0.0.1:{raw.port}")) as client:
        assert client.get(Node, "n").metadata.name == "n"
        assert client.with_user_agent("script").get("nodes", "n").metadata.name == "n"
        assert "User-Agent: script" in raw.heads[-1]
        with pytest.raises(errors.NotFound):
            client.get(Node, "missing")
        with pytest.raises(UsageError):
            client.get(Node, "")


def test_watch_is_an_iterator_that_can_be_closed() -> None:
    with server() as raw, SyncClient(ServerConfig(f"http://127.0.0.1:{raw.port}")) as client:
        for seen, batch in enumerate(client.watch(Node), 1):
            assert batch[0].object.metadata.name == "n"
            if seen == 2:
                break
        assert client.get(Node, "n").metadata.name == "n"


def test_every_public_method_has_a_sync_form() -> None:
    public = [name for name, found in vars(Client).items() if inspect.isfunction(found) and name[0] != "_"]
    assert "get" in public
    assert all(callable(getattr(SyncClient, name)) for name in public)
    assert inspect.signature(SyncClient.list) == inspect.signature(Client.list)
