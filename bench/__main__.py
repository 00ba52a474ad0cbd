# SPDX-License-Identifier: Apache-2.0
"""Runs all measurements and prints one line of JSON a figure."""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path

import uvloop

from bench import custom_kinds, hostile, informers, nodes, stores
from bench.figures import Size, list_seconds, prepare, request_rates, watch_rate
from bench.program import running


def main() -> None:
    parser = argparse.ArgumentParser("bench", description="Measure kubeloop up on this machine.")
    parser.add_argument("--objects", type=int, default=3000)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--watchers", type=int, default=100)
    parser.add_argument("--events", type=int, default=500)
    parser.add_argument("--informer-pods", type=int, default=5000)
    parser.add_argument("--informer-changes", type=int, default=2000)
    parts = ("server", "custom", "stores", "informers", "nodes")
    parser.add_argument("--only", choices=parts, help="run only one part of the measurements")
    parser.add_argument(
        "--store", default="sqlite", help="store: sqlite, or an empty etcd as etcd://HOST:PORT (default: sqlite)"
    )
    parser.add_argument("--kopf-index", action="store_true", help="also measure kopf's own index, which takes minutes")
    parser.add_argument("--many-pods", action="store_true", help="fill the nodes with 50,000 pods, which takes minutes")
    options = parser.parse_args()
    size = Size(options.objects, options.connections, options.watchers, options.events)
    with (
        tempfile.TemporaryDirectory(prefix="kubeloop-bench-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        if options.only in (None, "server"):
            runner.run(measure(Path(folder) / "data", size, options.store))
        if options.only in (None, "custom"):
            runner.run(measure_custom(Path(folder) / "custom", size))
        if options.only in (None, "stores"):
            runner.run(measure_stores(Path(folder) / "stores", size))
        if options.only in (None, "informers"):
            where = Path(folder) / "informers"
            count, changes, index = options.informer_pods, options.informer_changes, options.kopf_index
            runner.run(measure_informers(where, count, changes, index))
        if options.only in (None, "nodes"):
            runner.run(measure_nodes(Path(folder) / "nodes", options.many_pods))


async def measure(folder: Path, size: Size, store: str) -> None:
    async with running(folder, store) as program:
        report("first_start_s", program.start_seconds)
    async with running(folder, store) as program:
        report("start_s", program.start_seconds)
        report("idle_mib", program.resident_mib())
        await prepare(program)
        async for name, rate in request_rates(program, size):
            report(name, rate)
        report("list_pods_s", await list_seconds(program))
        report("watch_deliveries_per_s", await watch_rate(program, size))
        report("loaded_mib", program.resident_mib())
    async with running(folder, store) as program:
        report("loaded_start_s", program.start_seconds)


async def measure_custom(folder: Path, size: Size) -> None:
    async with running(folder) as program:
        await prepare(program)
        async for name, value in hostile.figures(program):
            report(name, value)
        async for name, value in custom_kinds.figures(program, size):
            report(name, value)


async def measure_stores(folder: Path, size: Size) -> None:
    async for name, value in stores.compare(folder, size):
        report(name, value)


async def measure_informers(folder: Path, pods: int, changes: int, index: bool) -> None:
    report("queue_keys_per_s", await informers.queue_rate())
    async with running(folder) as program:
        await prepare(program)
        await informers.fill(program, pods)
        async for name, value in informers.compare(program, pods, changes, index):
            report(name, value)


async def measure_nodes(folder: Path, many_pods: bool) -> None:
    async for name, value in nodes.figures(folder, many_pods):
        report(name, value)


def report(figure: str, value: float) -> None:
    print(json.dumps({"figure": figure, "value": float(f"{value:.4g}")}), flush=True)


main()
