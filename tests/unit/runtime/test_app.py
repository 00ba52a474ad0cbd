# SPDX-License-Identifier: Apache-2.0
"""An app starts what its loops need before them, and stops it after them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubeloop.runtime.app import App
from tests.unit.runtime.in_process_server import Server, play


class RecordedSteps:
    """A manager, informers and a recorder that write down what happens to them."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def app(self, *, records: bool = True) -> App:
        parts: Any = self
        # as much as it needs
        return App(parts, parts, _Recorder(self) if records else None, self.close)  # type: ignore[arg-type]

    def start(self) -> None:
        self.taken.append("informers start")

    async def stop(self) -> None:
        self.taken.append("informers stop")

    async def close(self) -> None:
        self.taken.append("close")

    async def run(self, grace: Any) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.taken.append(f"drain {grace():g}")


class _Recorder:
    def __init__(self, steps: RecordedSteps) -> None:
        self._steps = steps

    async def run(self) -> None:
        self._steps.taken.append("recorder start")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._steps.taken.append("recorder stop")

    async def flush(self, within: float) -> None:
        self._steps.taken.append(f"flush {within:g}")


@pytest.mark.parametrize("records", [True, False])
def test_parts_are_stopped_in_reverse_and_events_are_flushed(records: bool) -> None:
    async def scenario(server: Server) -> None:
        steps = RecordedSteps()
        running = asyncio.create_task(steps.app(records=records).run(lambda: 3.0))
        await server.loop.settle()
        running.cancel()
        await asyncio.wait((running,))
        recorded = ["flush 3", "recorder stop"] if records else []
        assert [one for one in steps.taken if one != "recorder start"] == [
            "informers start", "drain 3", "informers stop", "close", *recorded,
        ]  # fmt: skip
        assert ("recorder start" in steps.taken) is records

    play(scenario)
