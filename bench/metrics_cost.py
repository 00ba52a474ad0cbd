# SPDX-License-Identifier: Apache-2.0
"""Measures what recording metrics adds to the processor time of a create.

`python -m bench.metrics_cost` prints one line of JSON a figure. One server in this process, with a store in memory,
gets blocks of creates in turn: with its recorder, and with a recorder that does nothing and a clock that stands still.
A round is one block of each; every second round begins with the other one. What the empty calls cost is measured by
itself and counted as recording, too. HTTP and TLS are left out, so the ratio is larger than that of a real request.
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
from kubeloop.http import Request

MAPS: Final = "/api/v1/namespaces/default/configmaps"
_DATA: Final = "x" * 900
_EMPTY_CALLS: Final = 100_000
_ROUNDS_BETWEEN_CLEANUPS: Final = 100


class StillClock(SystemClock):
    """Clock whose monotonic time stands still."""

    def monotonic(self) -> float:
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
        admission, clock = app.object_store._admission, StillClock()
        self._parts: list[tuple[Any, str, Any, Any]] = [
            (app.metrics, "requests", app.metrics.requests, NullRecorder()),
            (app, "clock", app.clock, clock),
            (app.object_store, "_clock", app.object_store._clock, clock),
            (storage, "writes", storage.writes, NullWrites()),
            (admission, "_metrics", admission._metrics, None),
            (admission, "_steps", admission._steps, {}),
        ]

    def switch(self, *, on: bool) -> None:
        """Record from now on, or do not."""
        for owner, name, real, null in self._parts:
            setattr(owner, name, real if on else null)


def request_of(number: int, token: str) -> Request:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{number}"}, "data": {"k": _DATA}}
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json", "accept": "application/json"}
    request = Request("POST", MAPS, "", headers)
    request.body = json.dumps(body).encode()
    return request


async def block_seconds(app: ApiServer, requests: list[Request]) -> float:
    """Return the processor time of creates, one after the other."""
    began = time.thread_time_ns()
    for one in requests:
        response = await app.handle(one)
    seconds = (time.thread_time_ns() - began) / 1e9
    assert response.status == 201, response.body
    return seconds


def empty_call_seconds() -> float:
    """Return the processor time of what the empty recorder is still called for in one create."""
    clock, recorder = StillClock(), NullRecorder()
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
    recorder, numbers = Recorder(app), count()
    empty = 0.0 if options.control else empty_call_seconds() * options.creates

    async def block(*, on: bool) -> float:
        requests = [request_of(next(numbers), token) for _ in range(options.creates)]
        recorder.switch(on=on and not options.control)
        seconds = await block_seconds(app, requests)
        recorder.switch(on=True)
        return seconds

    ratios, spent_off = [], []
    for index in range(options.rounds):
        if index % _ROUNDS_BETWEEN_CLEANUPS == 0:
            await remove_all(app, token)
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


async def remove_all(app: ApiServer, token: str) -> None:
    """Delete what blocks created, so that the store does not grow."""
    request = Request("DELETE", MAPS, "", {"authorization": f"Bearer {token}"})
    assert (await app.handle(request)).status == 200


async def run(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="kubeloop-bench-") as folder:
        tokens = Path(folder) / "tokens.csv"
        tokens.write_text('secret,bench,1,"system:masters"\n')
        server = await start_server(ApiServerConfig(port=0, token_file=tokens), SystemClock())
        try:
            gc.disable()
            for name, value in await measure(server.app, options, "secret"):
                print(json.dumps({"figure": name, "value": round(value, 4)}))
        finally:
            await server.close()


def main() -> None:
    parser = argparse.ArgumentParser("bench.metrics_cost", description="Measure the cost of recording metrics.")
    parser.add_argument("--rounds", type=int, default=4000, help="blocks of each kind (default: 4000)")
    parser.add_argument("--creates", type=int, default=4, help="creates of a block (default: 4)")
    parser.add_argument("--control", action="store_true", help="compare the empty recorder with itself")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
