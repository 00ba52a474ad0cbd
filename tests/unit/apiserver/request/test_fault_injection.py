# SPDX-License-Identifier: Apache-2.0
"""Over a real connection: calls that fail on purpose, answers that never come, late events and broken watches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from kubeloop.api import errors
from kubeloop.apiserver.server import ApiServerConfig, RunningServer, start_server
from kubeloop.clock import SystemClock
from tests.bounds import GIVE_UP_SECONDS

MAPS = "/api/v1/namespaces/default/configmaps"
OPEN: list[asyncio.StreamWriter] = []  # to be closed in the end


class ScriptedFault:
    """Return the outcome of a call."""

    def __init__(self, error: errors.ApiError | None = None, delay: float = 0.0, drops_response: bool = False) -> None:
        self.error, self.delay, self.drops_response = error, delay, drops_response


class ScriptedInjector:
    """Injects scripted faults."""

    def __init__(self) -> None:
        self.strikes: dict[str, ScriptedFault] = {}
        self.late = 0.0
        self.asked: list[tuple[str, str, str, str]] = []
        self.cuts: list[Callable[[], None]] = []

    def fault_of(self, user: str, verb: str, resource: str, name: str) -> ScriptedFault | None:
        self.asked.append((user, verb, resource, name))
        return self.strikes.get(verb)

    def event_delay(self, user: str, resource: str) -> float:
        return self.late

    def register_watch(self, resource: str, cut: Callable[[], None]) -> Callable[[], None]:
        self.cuts.append(cut)
        return lambda: self.cuts.remove(cut)

    async def run(self) -> None:
        await asyncio.Event().wait()


class Connection:
    """Client over plain HTTP."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, method: str, path: str, body: bytes = b"") -> None:
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        self.writer.write(head.encode() + b"\r\n\r\n" + body)

    async def call(self, method: str, path: str, document: Any = None) -> tuple[int, Any]:
        self.send(method, path, b"" if document is None else json.dumps(document).encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].split("\r\n")[0])
        body = await self.reader.readexactly(length)
        return int(head.split(" ")[1]), json.loads(body) if body.startswith(b"{") else body

    async def event(self) -> Any:
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        return json.loads((await self.reader.readexactly(size + 2))[:-2])


def scenario(work: Callable[[RunningServer, ScriptedInjector], Any]) -> None:
    async def main() -> None:
        board = ScriptedInjector()
        config = ApiServerConfig(
            port=0, authorization_modes=("AlwaysAllow",), fault_injector=board, compaction_interval=0
        )
        server = await start_server(config, SystemClock())
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS):
                await work(server, board)
        finally:
            for writer in OPEN:
                writer.close()
            OPEN.clear()
            await server.close()

    asyncio.run(main())


async def connect(server: RunningServer) -> Connection:
    made = Connection(*await asyncio.open_connection("127.0.0.1", server.port))
    OPEN.append(made.writer)
    return made


def config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def test_error_fault_is_a_status_without_effect() -> None:
    async def work(server: RunningServer, board: ScriptedInjector) -> None:
        board.strikes = {"create": ScriptedFault(errors.service_unavailable("not now"))}
        client = await connect(server)
        code, status = await client.call("POST", MAPS, config_map("a"))
        assert (code, status["kind"], status["reason"], status["message"]) == (
            503,
            "Status",
            "ServiceUnavailable",
            "not now",
        )
        assert board.asked == [("system:anonymous", "create", "configmaps", "")]
        assert (await client.call("GET", f"{MAPS}/a"))[0] == 404

    scenario(work)


def test_lost_response_follows_execution() -> None:
    async def work(server: RunningServer, board: ScriptedInjector) -> None:
        board.strikes = {"create": ScriptedFault(drops_response=True)}
        for _ in range(2):  # the second time it exists already
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await (await connect(server)).call("POST", MAPS, config_map("a"))
        assert (await (await connect(server)).call("GET", f"{MAPS}/a"))[0] == 200

    scenario(work)


def test_health_metrics_and_discovery_have_no_faults() -> None:
    async def work(server: RunningServer, board: ScriptedInjector) -> None:
        board.strikes = {verb: ScriptedFault(errors.service_unavailable("no")) for verb in ("get", "list", "watch")}
        client = await connect(server)
        for path in ("/readyz", "/livez", "/metrics", "/api/v1", "/apis", "/version"):
            assert (await client.call("GET", path))[0] == 200
        assert board.asked == []

    scenario(work)


def test_late_events_keep_their_order_and_a_cut_watch_breaks() -> None:
    async def work(server: RunningServer, board: ScriptedInjector) -> None:
        client, watcher = await connect(server), await connect(server)
        watcher.send("GET", f"{MAPS}?watch=1&resourceVersion=1")
        await watcher.reader.readuntil(b"\r\n\r\n")
        board.late = 0.05
        for name in ("a", "b", "c"):
            await client.call("POST", MAPS, config_map(name))
            board.late = 0.0
        names = [(await watcher.event())["object"]["metadata"]["name"] for _ in range(3)]
        assert names == ["a", "b", "c"]
        (cut,) = board.cuts
        cut()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await watcher.event()
        assert board.cuts == []

    scenario(work)


def test_slow_call_is_executed_after_its_delay() -> None:
    async def work(server: RunningServer, board: ScriptedInjector) -> None:
        board.strikes = {"list": ScriptedFault(delay=0.05)}
        began = asyncio.get_running_loop().time()
        assert (await (await connect(server)).call("GET", MAPS))[0] == 200
        assert asyncio.get_running_loop().time() - began >= 0.05

    scenario(work)
