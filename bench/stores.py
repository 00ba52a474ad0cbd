# SPDX-License-Identifier: Apache-2.0
"""SQLite beside etcd, and two API servers beside one: each figure by the clock, and by the servers' processor time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from bench.connection import Connection
from bench.etcd import etcd
from bench.figures import ROOT, Call, Size, calls_on, list_seconds, prepare, request_rates
from bench.program import Program, another_server, running

_ROUNDS = 4


async def compare(folder: Path, size: Size) -> AsyncIterator[tuple[str, float]]:
    await asyncio.to_thread(folder.mkdir)
    async with running(folder / "sqlite") as program:
        async for name, value in _figures("sqlite", program, size):
            yield name, value
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(etcd(folder / "etcd"))
        one = await stack.enter_async_context(running(folder / "one", url))
        async for name, value in _figures("etcd", one, size):
            yield name, value
        async for name, value in _read_rates("one_server", [one], size):
            yield name, value
        other = await stack.enter_async_context(another_server(one, url))
        async for name, value in _read_rates("two_servers", [one, other], size):
            yield name, value


async def _figures(store: str, program: Program, size: Size) -> AsyncIterator[tuple[str, float]]:
    await prepare(program)
    before = cpu_seconds([program])
    async for name, rate in request_rates(program, size):
        after = cpu_seconds([program])
        yield f"{store}_{name}", rate
        yield f"{store}_{name.removesuffix('_per_s')}_per_cpu_s", size.objects / max(after - before, 0.01)
        before = after
    yield f"{store}_list_pods_s", await list_seconds(program)


async def _read_rates(name: str, programs: Sequence[Program], size: Size) -> AsyncIterator[tuple[str, float]]:
    """Reads of single pods, over as many connections in all however many servers there are."""
    calls: list[Call] = [("GET", f"{ROOT}/pods/p{i}", b"", "application/json") for i in range(size.objects)] * _ROUNDS
    connections = [
        await Connection.open(program.port, program.tls())
        for number in range(size.connections)
        for program in [programs[number % len(programs)]]
    ]
    before = cpu_seconds(programs)
    took = await calls_on(connections, calls)
    spent = cpu_seconds(programs) - before
    for connection in connections:
        connection.close()
    yield f"reads_of_{name}_per_s", len(calls) / took
    yield f"reads_of_{name}_per_cpu_s", len(calls) / max(spent, 0.01)


def cpu_seconds(programs: Sequence[Program]) -> float:
    """Processor time that processes have used so far, as Linux counts it."""
    used = 0
    for program in programs:
        fields = Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()
        used += int(fields[11]) + int(fields[12])
    return used / os.sysconf("SC_CLK_TCK")
