# SPDX-License-Identifier: Apache-2.0
"""Measures what recording metrics adds to the processor time of a create.

`python -m bench.metrics_cost` prints one line of JSON a figure. One server in this process, with a store in memory,
gets blocks of creates in turn: with its recorder, and with a recorder that does nothing and a clock that stands still.
A round is one block of each; every second round begins with the other one. What the empty calls cost is measured by
itself and counted as recording, too. A create is what the server does from a request's bytes to its response's: HTTP,
but neither TLS nor the kernel, so that the ratio is larger than that of a real request.
`--control` compares the empty recorder with itself, which shows the noise. Blocks are short, so that most of them are
not interrupted by other work on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any, Final

from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.server import ApiServerConfig, start_server
from kubeloop.clock import SystemClock
from kubeloop.http import HttpHooks, HttpLimits, Request
from kubeloop.http.connections import ServerState
from kubeloop.http.protocol import HttpServerConnection

MAPS: Final = "/api/v1/namespaces/default/configmaps"
_DATA: Final = "x" * 900
_EMPTY_CALLS: Final = 100_000
_ROUNDS_BETWEEN_CLEANUPS: Final = 100


class HaltingClock(SystemClock):
    """Clock whose monotonic time can be halted; one class for both, as the interpreter caches lookups by class."""

    def __init__(self) -> None:
        super().__init__()
        self.monotonic = SystemClock.monotonic


def _no_time() -> float:
    return 0.0


class NullRecorder:
    """Takes the place of everything that records a create."""

    def record(self, *_: object) -> bool:
        return True

    def observe(self, _: float) -> None:
        pass


class NullWrites:
    """Takes the place of the durations of writes."""

    def __init__(self) -> None:
        self.create = NullRecorder()


class Recorder:
    """Exchanges the parts of a server that record creates for others that do nothing, and back."""

    def __init__(self, app: ApiServer) -> None:
        storage = app.registry.storage_of(next(one for one in RESOURCES if one.plural == "configmaps"))
        admission = app.object_store._admission
        self._parts: list[tuple[Any, str, Any, Any]] = [
            (app.metrics, "requests", app.metrics.requests, NullRecorder()),
            (app.clock, "monotonic", SystemClock.monotonic, _no_time),
            (storage, "writes", storage.writes, NullWrites()),
            (admission, "_metrics", admission._metrics, None),
            (admission, "_steps", admission._steps, {}),
        ]

    def switch(self, *, on: bool) -> None:
        """Record from now on, or do not."""
        for owner, name, real, null in self._parts:
            setattr(owner, name, real if on else null)


class WireTransport(asyncio.Transport):
    """Transport of a connection whose peer waits for one response at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: asyncio.Future[bytes] | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class WireClient:
    """Client that hands its bytes to the server's connection, without a socket."""

    def __init__(self, app: ApiServer, token: str) -> None:
        self._loop = asyncio.get_running_loop()
        state = ServerState(app.handle, HttpLimits(), HttpHooks(), app.clock, self._loop)
        self._transport = WireTransport()
        self._connection = HttpServerConnection(state)
        self._connection.connection_made(self._transport)
        self._head = f"authorization: Bearer {token}\r\ncontent-type: application/json\r\nhost: x\r\n"

    def encode(self, body: bytes) -> bytes:
        lines = f"POST {MAPS} HTTP/1.1\r\n{self._head}content-length: {len(body)}\r\n\r\n"
        return lines.encode() + body

    async def send(self, request: bytes) -> bytes:
        answer: asyncio.Future[bytes] = self._loop.create_future()
        self._transport.answer = answer
        self._connection.data_received(request)
        return await answer


def body_of(number: int) -> bytes:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{number}"}, "data": {"k": _DATA}}
    return json.dumps(body).encode()


async def block_seconds(client: WireClient, requests: list[bytes]) -> float:
    """Return the processor time of creates, one after the other."""
    began = time.thread_time_ns()
    for one in requests:
        response = await client.send(one)
    seconds = (time.thread_time_ns() - began) / 1e9
    assert response.startswith(b"HTTP/1.1 201 "), response
    return seconds


def empty_call_seconds() -> float:
    """Return the processor time of what the empty recorder is still called for in one create."""
    clock, recorder = HaltingClock(), NullRecorder()
    clock.monotonic = _no_time
    began = time.process_time()
    for _ in range(_EMPTY_CALLS):
        clock.monotonic()
        clock.monotonic()
        clock.monotonic()
        clock.monotonic()
        recorder.observe(0.0)
        recorder.record(None, None, None)
    return (time.process_time() - began) / _EMPTY_CALLS


async def measure(app: ApiServer, options: argparse.Namespace, token: str) -> list[tuple[str, float]]:
    client, recorder, numbers = WireClient(app, token), Recorder(app), count()
    empty = 0.0 if options.control else empty_call_seconds() * options.creates

    async def block(*, on: bool) -> float:
        requests = [client.encode(body_of(next(numbers))) for _ in range(options.creates)]
        recorder.switch(on=on and not options.control)
        seconds = await block_seconds(client, requests)
        recorder.switch(on=True)
        return seconds

    ratios, spent_off = [], []
    for index in range(options.rounds):
        if index % _ROUNDS_BETWEEN_CLEANUPS == 0:
            deletion = Request("DELETE", MAPS, "", {"authorization": f"Bearer {token}"})
            assert (await app.handle(deletion)).status == 200
            gc.collect()
            for on in (True, False):
                await block(on=on)
        order = (True, False) if index % 2 else (False, True)
        spent = {on: await block(on=on) for on in order}
        ratios.append((spent[True] + empty) / spent[False])
        spent_off.append(spent[False])
    quartiles = statistics.quantiles(ratios, n=4)
    return [
        ("metrics_create_us", statistics.median(spent_off) / options.creates * 1e6),
        ("metrics_empty_calls_us", empty / options.creates * 1e6),
        ("metrics_cost_ratio", quartiles[1]),
        ("metrics_cost_ratio_lower_quartile", quartiles[0]),
        ("metrics_cost_ratio_upper_quartile", quartiles[2]),
        # Of the median, if rounds were independent of each other.
        ("metrics_cost_ratio_error", 1.25 * statistics.stdev(_within(ratios, *quartiles)) / len(ratios) ** 0.5),
    ]


def _within(ratios: list[float], lower: float, _: float, upper: float) -> list[float]:
    """Return the ratios without outliers, as Tukey's fences tell them."""
    reach = 1.5 * (upper - lower)
    return [one for one in ratios if lower - reach <= one <= upper + reach]


async def run(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="kubeloop-bench-") as folder:
        tokens = Path(folder) / "tokens.csv"
        tokens.write_text('secret,bench,1,"system:masters"\n')
        server = await start_server(ApiServerConfig(port=0, token_file=tokens), HaltingClock())
        try:
            gc.disable()
            for name, value in await measure(server.app, options, "secret"):
                print(json.dumps({"figure": name, "value": round(value, 4)}))
        finally:
            await server.close()


def main() -> None:
    parser = argparse.ArgumentParser("bench.metrics_cost", description="Measure the cost of recording metrics.")
    parser.add_argument("--rounds", type=int, default=3000, help="blocks of each kind (default: 3000)")
    parser.add_argument("--creates", type=int, default=16, help="creates of a block (default: 16)")
    parser.add_argument("--control", action="store_true", help="compare the empty recorder with itself")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
