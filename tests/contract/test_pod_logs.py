# SPDX-License-Identifier: Apache-2.0
"""Tests of followed logs over every transport: lines arrive as written, and closed readers are detected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kubeloop.api import errors
from kubeloop.apiserver.handlers.subresources import SUBRESOURCES
from kubeloop.http import Response, ResponseStream, StreamResponse, encode_chunk
from tests.contract.planes import NAMESPACE, Plane, Scenario


class ContainerLog(StreamResponse):
    """Container log as delivered by a node; the test writes it."""

    __slots__ = ("_read_up", "_writes", "left")

    def __init__(self) -> None:
        super().__init__(200, content_type="text/plain")
        self._writes: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.left = asyncio.Event()

    def write(self, text: bytes | Exception | None) -> None:
        self._writes.put_nowait(text)

    async def run(self, stream: ResponseStream) -> None:
        stream.on_close(self.left.set)
        while (text := await self._writes.get()) is not None:
            if isinstance(text, Exception):
                raise text
            stream.write(encode_chunk(text))
            await stream.wait_drained()


Follow = Callable[[Callable[[Plane, ContainerLog], object]], None]


@pytest.fixture
def follow(play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch) -> Follow:
    """Plays a scenario on a server where every pod's log is the one that the scenario is given."""

    def run(scenario: Callable[..., object]) -> None:
        async def on(plane: Plane) -> None:
            log = ContainerLog()

            async def pod_log(*_: object) -> Response:
                return log

            monkeypatch.setitem(SUBRESOURCES, "log", pod_log)
            await scenario(plane, log)  # type: ignore[misc]  # a coroutine function's

        play(on)

    return run


def test_complete_line_is_delivered_immediately(follow: Follow) -> None:
    async def scenario(plane: Plane, log: ContainerLog) -> None:
        lines = plane.client.stream_logs("p", NAMESPACE, follow=True)
        log.write(b"first\nsec")
        assert await anext(lines) == "first"
        log.write(b"ond\n")
        assert await anext(lines) == "second"
        log.write(b"no end")
        log.write(None)
        assert [line async for line in lines] == ["no end"]

    follow(scenario)


def test_disconnected_reader_is_detected(follow: Follow) -> None:
    async def scenario(plane: Plane, log: ContainerLog) -> None:
        lines = plane.client.stream_logs("p", NAMESPACE, follow=True)
        log.write(b"first\n")
        await anext(lines)
        await lines.aclose()  # type: ignore[attr-defined]  # an async generator
        await log.left.wait()

    follow(scenario)


def test_slow_reader_receives_everything(follow: Follow) -> None:
    async def scenario(plane: Plane, log: ContainerLog) -> None:
        text = b"x" * 99 + b"\n"
        for _ in range(300):
            log.write(text * 100)
        log.write(None)
        count = 0
        async for line in plane.client.stream_logs("p", NAMESPACE, follow=True):
            count += 1
            assert line == "x" * 99
            if count % 1000 == 0:
                await asyncio.sleep(0)
        assert count == 30_000

    follow(scenario)


def test_interrupted_log_raises_an_error(follow: Follow) -> None:
    async def scenario(plane: Plane, log: ContainerLog) -> None:
        lines = plane.client.stream_logs("p", NAMESPACE, follow=True)
        log.write(b"first\n")
        await anext(lines)
        log.write(RuntimeError("the node is gone"))
        with pytest.raises(Exception, match=r"gone|closed"):
            await anext(lines)

    follow(scenario)


def test_unauthorized_log_request_is_forbidden(play: Callable[[Scenario], None]) -> None:
    async def scenario(plane: Plane) -> None:
        with pytest.raises(errors.Forbidden, match='cannot get resource "pods/log"'):
            await anext(plane.nobody.stream_logs("p", NAMESPACE, follow=True))

    play(scenario)
