# SPDX-License-Identifier: Apache-2.0
"""Informers beside what others have: a copy of all pods over TLS, by us, the official client and kopf, in one run."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from bench.connection import Connection
from bench.figures import ROOT, STRATEGIC, Call, calls_on, pod
from bench.program import Program
from kubeloop.clock import SystemClock
from kubeloop.runtime.controller import Controller

# Clients of `bench.informer_clients`; ours first.
COMPARED = ("ours", "official", "kopf")
ROUNDS = 3
# How many pods are alike: replicas of one template differ in little else than their names.
REPLICAS = 20
CONNECTIONS = 8
QUEUED = 50_000
DEADLINE = 120.0  # for one client's whole part
INDEX_DEADLINE = 900.0  # the time of kopf's index grows with the square of the number of objects
Figures = dict[str, float]


async def fill(program: Program, count: int) -> None:
    """Create pods of several templates."""
    templates = max(1, count // REPLICAS)
    calls: list[Call] = [
        ("POST", f"{ROOT}/pods", pod(f"i{number}", number % templates), "application/json") for number in range(count)
    ]
    await _make(program, calls)


async def compare(program: Program, count: int, changes: int, index: bool) -> AsyncIterator[tuple[str, float]]:
    """Measure every client alternately, several times; returns medians and their ratios to ours.

    kopf's index runs once.
    """
    found: dict[str, list[Figures]] = {name: [] for name in COMPARED}
    for number in range(ROUNDS):
        for name in COMPARED:
            found[name].append(await _measure(program, name, count, changes, f"round-{number}-{name}"))
    if index:
        found["kopf_index"] = [await _measure(program, "kopf_index", count, changes, "index")]
    medians = {name: _medians(rounds) for name, rounds in found.items()}
    for name, figures in medians.items():
        for figure, value in figures.items():
            yield f"informer_{name}_{figure}", value
    for name in list(medians)[1:]:
        for figure, value in medians[name].items():
            yield f"informer_{name}_to_ours_{figure}", value / medians["ours"][figure]


def _medians(rounds: list[Figures]) -> Figures:
    return {figure: statistics.median(one[figure] for one in rounds) for figure in rounds[0]}


async def _measure(program: Program, name: str, count: int, changes: int, mark: str) -> Figures:
    """Start a client, wait for its copy, make changes, wait until it has seen them."""
    command = [sys.executable, "-m", "bench.informer_clients", name, str(count), str(changes)]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "KUBECONFIG": str(program.folder / "admin.conf"), "PYTHONPATH": str(_ROOT)},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(INDEX_DEADLINE if name == "kopf_index" else DEADLINE):
            figures: Figures = json.loads(await process.stdout.readline())
            patch = msgspec.json.encode({"metadata": {"annotations": {"touched": mark}}})
            touched: list[Call] = [("PATCH", f"{ROOT}/pods/i{number}", patch, STRATEGIC) for number in range(changes)]
            await _make(program, touched)
            figures |= json.loads(await process.stdout.readline())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return figures


async def _make(program: Program, calls: list[Call]) -> None:
    connections = [await Connection.open(program.port, program.tls()) for _ in range(CONNECTIONS)]
    await calls_on(connections, calls)
    for connection in connections:
        connection.close()


async def queue_rate() -> float:
    """Keys a second through queue and worker, for a reconcile that does nothing."""
    done, clock = asyncio.Event(), SystemClock()
    left = QUEUED

    async def reconcile(_: int) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    controller: Controller[int] = Controller("bench", reconcile, clock)
    running = asyncio.create_task(controller.run())
    began = time.perf_counter()
    for key in range(QUEUED):
        controller.queue.add(key)
    await done.wait()
    took = time.perf_counter() - began
    running.cancel()
    return QUEUED / took


_ROOT = Path(__file__).parents[1]
