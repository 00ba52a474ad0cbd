# SPDX-License-Identifier: Apache-2.0
"""Measures what a new user waits for, for the comparison with envtest and kind: `python -m bench.comparison`.

Each figure is the median of several runs. The first start creates keys and store; a later one finds them. With
`--kube-apiserver PATH --etcd PATH` it also measures the programs that envtest starts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec

from bench.connection import Connection
from bench.figures import encode
from bench.program import Program, cpu_seconds, running
from bench.upstream import UpstreamBinaries, upstream_server

_RUNS = 3
_PATIENCE = 120.0
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
# A new process: what a test's process pays for the fixture `cluster`.
_FIXTURE = """
import resource, time
began = time.perf_counter()
from kubeloop.testing import Cluster
first = Cluster()
ready = time.perf_counter() - began
began = time.perf_counter()
with Cluster() as another:
    another.client.list("pods")
print(ready, time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
first.close()
"""


async def plane_figures(folder: Path) -> AsyncIterator[tuple[str, float]]:
    """Measure a whole plane with one node: until ready, until a Deployment is available, and its memory."""
    for start in ("first_start", "start"):
        began = time.perf_counter()
        async with running(folder, nodes=1) as program:
            yield f"{start}_ready_s", program.start_seconds
            yield f"{start}_ready_cpu_s", cpu_seconds(program.pid)
            await _available(program, start.replace("_", "-"))
            yield f"{start}_deployment_available_s", time.perf_counter() - began
            yield f"{start}_mib", program.resident_mib()


async def _available(program: Program, name: str) -> None:
    """Create a Deployment and wait until it is available."""
    connection = await Connection.open(program.port, program.tls())
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "app"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    await connection.call("POST", _DEPLOYMENTS, encode({"metadata": {"name": name}, "spec": spec}))
    stream = await connection.watch(f"{_DEPLOYMENTS}?watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion=0")
    async with asyncio.timeout(_PATIENCE):
        while True:
            size = int(await stream.readuntil(b"\r\n"), 16)
            event = msgspec.json.decode((await stream.readexactly(size + 2))[:-2])
            if event["object"]["status"].get("availableReplicas", 0) == 1:
                break
    connection.close()


def fixture_figures() -> Iterator[tuple[str, float]]:
    """Measure the fixture `cluster` in a new process: the first cluster, a further one, and the process' memory."""
    done = subprocess.run([sys.executable, "-c", _FIXTURE], capture_output=True, text=True, check=True)
    names = ("fixture_first_s", "fixture_further_s", "fixture_process_mib")
    yield from zip(names, map(float, done.stdout.split()), strict=True)


async def envtest_figures(binaries: UpstreamBinaries, folder: Path) -> AsyncIterator[tuple[str, float]]:
    """Measure etcd and kube-apiserver until ready, with an empty store as envtest has it, and their memory."""
    async with upstream_server(binaries, folder) as server:
        yield "envtest_ready_s", server.start_seconds
        yield "envtest_ready_cpu_s", server.cpu_seconds()
        yield "envtest_mib", server.resident_mib()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.comparison", description="Measure what a new user waits for.")
    parser.add_argument("--runs", type=int, default=_RUNS, help=f"runs, whose median is printed (default: {_RUNS})")
    parser.add_argument("--kube-apiserver", default="", metavar="PATH", help="kube-apiserver to measure as in envtest")
    parser.add_argument("--etcd", default="etcd", metavar="PATH", help="etcd for it (default: etcd)")
    return parser.parse_args()


async def main(options: argparse.Namespace) -> None:
    """Print the median of each figure as one line of JSON."""
    found: dict[str, list[float]] = {}
    for _ in range(options.runs):
        if options.kube_apiserver:
            with tempfile.TemporaryDirectory() as folder:
                binaries = UpstreamBinaries(options.kube_apiserver, options.etcd)
                async for name, value in envtest_figures(binaries, Path(folder)):
                    found.setdefault(name, []).append(value)
        with tempfile.TemporaryDirectory() as folder:
            async for name, value in plane_figures(Path(folder) / "plane"):
                found.setdefault(name, []).append(value)
        for name, value in fixture_figures():
            found.setdefault(name, []).append(value)
    for name, values in found.items():
        print(json.dumps({"figure": name, "value": round(statistics.median(values), 3)}))


if __name__ == "__main__":
    asyncio.run(main(_options()))
