# SPDX-License-Identifier: Apache-2.0
"""Measures scheduled pods per second: the scheduler runs in the server's process and binds through the API.

`python -m bench.scheduler --nodes 5000 --pods 10000` prints one line of JSON a figure. Pods are there before the
scheduler starts; the clock runs from its start until the last pod is bound.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import uvloop

from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import User
from kubeloop.cli.program.foreground import GC_THRESHOLDS
from kubeloop.client import Client
from kubeloop.clock import SystemClock
from kubeloop.runtime.controller import Telemetry
from kubeloop.scheduler.app import build_scheduler
from kubeloop.testing.plane import start_plane

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
_ZONES = 10
_AT_ONCE = 200


def _plain(labels: Mapping[str, str], **spec: Any) -> Callable[[int], dict[str, Any]]:
    container = {"name": "app", "image": "pause", "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}}}

    def made(number: int) -> dict[str, Any]:
        meta = {"name": f"pod-{number}", "namespace": "default", "labels": dict(labels)}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}

    return made


def _affinity(kind: str, key: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"color": "blue"}}, "topologyKey": key}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


_SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 5,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"color": "blue"}},
        }
    ]
}
CASES: dict[str, Callable[[int], dict[str, Any]]] = {
    "basic": _plain({}),
    "affinity": _plain({"color": "blue"}, **_affinity("podAffinity", ZONE)),
    "anti_affinity": _plain({"color": "blue"}, **_affinity("podAntiAffinity", HOST)),
    "topology_spread": _plain({"color": "blue"}, **_SPREAD),
}


def _node(number: int) -> dict[str, Any]:
    name = f"node-{number}"
    room = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    labels = {HOST: name, ZONE: f"zone-{number % _ZONES}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": room, "capacity": room},
    }


async def measure(case: str, nodes: int, pods: int) -> tuple[float, float]:
    """Pods bound a second: by the clock, and of the processor's time, server included."""
    clock = SystemClock()
    async with AsyncExitStack() as parts:
        server = await start_plane(clock, (), parts)
        client = Client(InProcessTransport(server, User("bench", ("system:masters",))), user_agent="bench")
        await _account(client)
        await _in_batches([_join(client, _node(number)) for number in range(nodes)])
        await _in_batches([client.create(CASES[case](number)) for number in range(pods)])
        return await _until_bound(server, pods, clock)


async def _until_bound(server: ApiServer, pods: int, clock: SystemClock) -> tuple[float, float]:
    client = Client(
        InProcessTransport(server, User("system:kube-scheduler", ("system:masters",))), user_agent="scheduler"
    )
    hosted = build_scheduler(client, clock, Telemetry())
    gc.collect()
    gc.freeze()  # as the program does after its start
    gc.set_threshold(*GC_THRESHOLDS)
    began, busy = time.perf_counter(), time.process_time()
    running = asyncio.create_task(hosted.run(lambda: 1.0))
    while hosted.scheduler.bound < pods:  # noqa: ASYNC110  # a look costs nothing, and nobody tells
        await asyncio.sleep(0.02)
    took, spent = time.perf_counter() - began, time.process_time() - busy
    running.cancel()
    await asyncio.wait((running,))
    return pods / took, pods / spent


async def _account(client: Client) -> None:
    """Pods wait for it."""
    while True:
        found = await client.list("serviceaccounts", "default")
        if found.items:
            return
        await asyncio.sleep(0.01)


async def _join(client: Client, node: dict[str, Any]) -> None:
    name = node["metadata"]["name"]
    await client.create(node)
    await client.patch("nodes", name, {"spec": {"taints": []}})
    await client.patch("nodes", name, {"status": node["status"]}, subresource="status")


async def _in_batches(work: list[Any]) -> None:
    for first in range(0, len(work), _AT_ONCE):
        await asyncio.gather(*work[first : first + _AT_ONCE])


def main() -> None:
    parser = argparse.ArgumentParser("bench.scheduler", description="Measure the scheduler on this machine.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--only", choices=tuple(CASES), action="append")
    options = parser.parse_args()
    logging.disable(logging.ERROR)  # thousands of events that are dropped, and logged individually
    for case in options.only or CASES:
        # No two of them fit on a node.
        pods = min(options.pods, options.nodes) if case == "anti_affinity" else options.pods
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            rate, of_processor = runner.run(measure(case, options.nodes, pods))
        _report(f"scheduler_{case}_pods_per_s", rate)
        _report(f"scheduler_{case}_pods_per_cpu_s", of_processor)


def _report(figure: str, value: float) -> None:
    print(json.dumps({"figure": figure, "value": float(f"{value:.4g}")}), flush=True)


if __name__ == "__main__":
    main()
