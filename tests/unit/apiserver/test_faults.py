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

MAPS = "/api/v1/namespaces/default/configmaps"
OPEN: list[asyncio.StreamWriter] = []  # to be closed in the end


class Strike:
    """What happens to a call."""

    def __init__(self, error: errors.ApiError | None = None, delay: float = 0.0, loses_answer: bool = False) -> None:
        self.error, self.delay, self.loses_answer = error, delay, loses_answer


class Switchboard:
    """Strikes as the test says."""

    def __init__(self) -> None:
        self.strikes: dict[str, Strike] = {}
        self.late = 0.0
        self.asked: list[tuple[str, str, str, str]] = []
        self.cuts: list[Callable[[], None]] = []

    def strike(self, user: str, verb: str, resource: str, name: str) -> Strike | None:
        self.asked.append((user, verb, resource, name))
        return self.strikes.get(verb)

    def delay_of_event(self, user: str, resource: str) -> float:
        return self.late

    def watch_opened(self, resource: str, cut: Callable[[], None]) -> Callable[[], None]:
        self.cuts.append(cut)
        return lambda: self.cuts.remove(cut)

    async def run(self) -> None:
        await asyncio.Event().wait()


class Connection:
    """A client that speaks plain HTTP."""

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


def scenario(work: Callable[[RunningServer, Switchboard], Any]) -> None:
    async def main() -> None:
        board = Switchboard()
        config = ApiServerConfig(port=0, authorization_modes=("AlwaysAllow",), faults=board, compaction_interval=0)
        server = await start_server(config, SystemClock())
        try:
            async with asyncio.timeout(20):
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


def test_an_error_is_a_status_and_nothing_has_happened() -> None:
    async def work(server: RunningServer, board: Switchboard) -> None:
        board.strikes = {"create": Strike(errors.service_unavailable("not now"))}
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


def test_an_answer_is_lost_after_the_work_was_done_and_whether_it_succeeded_or_not() -> None:
    async def work(server: RunningServer, board: Switchboard) -> None:
        board.strikes = {"create": Strike(loses_answer=True)}
        for _ in range(2):  # the second time it exists already
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await (await connect(server)).call("POST", MAPS, config_map("a"))
        assert (await (await connect(server)).call("GET", f"{MAPS}/a"))[0] == 200

    scenario(work)


def test_health_metrics_and_discovery_are_never_hit() -> None:
    async def work(server: RunningServer, board: Switchboard) -> None:
        board.strikes = {verb: Strike(errors.service_unavailable("no")) for verb in ("get", "list", "watch")}
        client = await connect(server)
        for path in ("/readyz", "/livez", "/metrics", "/api/v1", "/apis", "/version"):
            assert (await client.call("GET", path))[0] == 200
        assert board.asked == []

    scenario(work)


def test_late_events_keep_their_order_and_a_cut_watch_breaks() -> None:
    async def work(server: RunningServer, board: Switchboard) -> None:
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


def test_a_slow_call_is_carried_out_after_its_delay() -> None:
    async def work(server: RunningServer, board: Switchboard) -> None:
        board.strikes = {"list": Strike(delay=0.05)}
        began = asyncio.get_running_loop().time()
        assert (await (await connect(server)).call("GET", MAPS))[0] == 200
        assert asyncio.get_running_loop().time() - began >= 0.05

    scenario(work)
