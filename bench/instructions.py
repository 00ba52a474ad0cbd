# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions of the server for each kind of request, by valgrind's callgrind.

`python -m bench.instructions` prints one line of JSON a figure. The whole program runs as usual, with its controllers
and scheduler, over TLS, with SQLite. Instructions do not depend on the load of the machine, so that two revisions can
be compared while other work runs: `--tree PATH` counts those of another checkout, with the libraries of this one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from bench.connection import Connection
from bench.figures import ROOT, Size, calls_on, encode, prepare, request_kinds, watch_rate
from bench.program import Program, under_callgrind

_SETTLE_SECONDS = 20.0  # until the start's background work has ended
_TOTAL = re.compile(r"^totals: (\d+)", re.MULTILINE)
_LISTS = 5
_DEPLOYMENT = "/apis/apps/v1/namespaces/bench/deployments"
_POLL_SECONDS = 0.2
_REPLICAS = 100  # more would time out: the program is some 50 times slower than usual


class InstructionCounter:
    """Counter of one program under callgrind."""

    def __init__(self, pid: int, report: Path) -> None:
        self._pid = pid
        self._report = report
        self._dumps = 0

    def start(self) -> None:
        """Begin to count."""
        self._control("--instr=on")

    def take(self) -> int:
        """Return the instructions since the last call."""
        self._dumps += 1
        self._control("--dump")
        dump = self._report.with_name(f"{self._report.name}.{self._dumps}")
        found = _TOTAL.search(dump.read_text(errors="replace"))
        assert found is not None, dump
        return int(found[1])

    def _control(self, option: str) -> None:
        subprocess.run(["callgrind_control", option, str(self._pid)], check=True, capture_output=True)


async def measure(program: Program, counter: InstructionCounter, size: Size) -> AsyncIterator[tuple[str, float]]:
    """Yield the instructions of one request, delivery or pod of each kind."""
    connections = [await Connection.open(program.port, program.tls()) for _ in range(size.connections)]
    for name, make in request_kinds().items():
        counter.take()
        await calls_on(connections, [make(i) for i in range(size.objects)])
        yield name.removesuffix("_per_s"), counter.take() / size.objects
    for name, query in (("list_pods", ""), ("list_pods_by_selector_of_none", "?labelSelector=app%3Dnone")):
        counter.take()
        await calls_on(connections[:1], [("GET", f"{ROOT}/pods{query}", b"", "application/json")] * _LISTS)
        yield name, counter.take() / _LISTS
    counter.take()
    await watch_rate(program, size)
    yield "watch_deliveries_with_writes", counter.take() / size.events / size.watchers
    counter.take()
    await connections[0].call("POST", _DEPLOYMENT, _deployment(_REPLICAS))
    await _wait_replicas(connections[0], _REPLICAS)
    yield "deployment_up_pods", counter.take() / _REPLICAS
    scale = encode({"spec": {"replicas": 0}})
    await connections[0].call("PATCH", f"{_DEPLOYMENT}/big", scale, "application/merge-patch+json")
    await _wait_replicas(connections[0], 0)
    yield "deployment_down_pods", counter.take() / _REPLICAS
    for connection in connections:
        connection.close()


def _deployment(replicas: int) -> bytes:
    template = {"metadata": {"labels": {"app": "big"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "big"}}, "template": template}
    return encode({"metadata": {"name": "big"}, "spec": spec})


async def _wait_replicas(connection: Connection, wanted: int) -> None:
    while True:
        found = json.loads(await connection.call("GET", f"{_DEPLOYMENT}/big"))
        if found.get("status", {}).get("replicas", 0) == wanted:
            return
        await asyncio.sleep(_POLL_SECONDS)


async def run(tree: Path, size: Size) -> None:
    with tempfile.TemporaryDirectory(prefix="kubeloop-bench-") as folder:
        report = Path(folder) / "callgrind.out"
        async with under_callgrind(Path(folder) / "data", tree, report) as program:
            await prepare(program)
            await asyncio.sleep(_SETTLE_SECONDS)
            counter = InstructionCounter(program.pid, report)
            counter.start()
            async for figure, value in measure(program, counter, size):
                print(json.dumps({"figure": f"instructions_{figure}", "value": round(value)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser("bench.instructions", description="Count the instructions of requests.")
    parser.add_argument("--tree", type=Path, default=Path(), help="checkout whose program is measured (default: .)")
    parser.add_argument("--objects", type=int, default=400)
    parser.add_argument("--watchers", type=int, default=20)
    parser.add_argument("--events", type=int, default=40)
    options = parser.parse_args()
    size = Size(options.objects, 8, options.watchers, options.events)
    asyncio.run(run(options.tree.absolute(), size))


if __name__ == "__main__":
    main()
