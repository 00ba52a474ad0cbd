# SPDX-License-Identifier: Apache-2.0
"""Measures how soon pods are ready on a node of a running cluster, and how soon they are gone.

`python -m bench.real_node --kubeconfig FILE --image IMAGE` prints one line of JSON a figure. The image must be present
on the node. The kubelet may be kubeloop's or upstream's: all times are those of a client that watches the pods.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.meta.conditions import is_true
from kubeloop.client import Client, ServerConfig, Unstructured, connect, load_config

_PREFIX = "bench-"
_GIVE_UP_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class PodShape:
    """Pods to create."""

    namespace: str
    node: str
    image: str
    command: tuple[str, ...]
    has_token: bool

    def manifest(self, name: str) -> Unstructured:
        """Return a pod that runs until it is deleted."""
        container = {"name": "main", "image": self.image, "imagePullPolicy": "IfNotPresent"}
        spec: dict[str, object] = {
            "containers": [container | ({"command": list(self.command)} if self.command else {})],
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": self.has_token,
        }
        if self.node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": self.node}
        metadata = {"name": name, "namespace": self.namespace}
        return Unstructured({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


@dataclass(frozen=True, slots=True)
class Observation:
    """Times at which a client saw the steps of pods, by name."""

    scheduled: dict[str, float] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)
    deleted: dict[str, float] = field(default_factory=dict)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def follow(self, client: Client, namespace: str) -> None:
        """Record the steps of all pods of a namespace, forever."""
        async for batch in client.watch(Pod, namespace, initial_events=True):
            now = time.perf_counter()
            for event in batch:
                if event.type != "BOOKMARK":
                    self._record(event.object, now, is_deleted=event.type == "DELETED")
            async with self.changed:
                self.changed.notify_all()

    def _record(self, pod: Pod, now: float, *, is_deleted: bool) -> None:
        name = pod.metadata.name
        if pod.spec.node_name:
            self.scheduled.setdefault(name, now)
        if is_true(pod.status.conditions, "Ready"):
            self.ready.setdefault(name, now)
        if is_deleted:
            self.deleted.setdefault(name, now)

    async def wait(self, names: list[str], seen: dict[str, float]) -> float:
        """Wait until a step of all pods was seen; returns the time of the last one."""
        async with asyncio.timeout(_GIVE_UP_SECONDS), self.changed:
            await self.changed.wait_for(lambda: seen.keys() >= set(names))
        return max(seen[name] for name in names)


async def measure(config: ServerConfig, shape: PodShape, one_by_one: int, at_once: int) -> None:
    """Measure pods one at a time, then several at once."""
    seen = Observation()
    async with connect(config, qps=0) as client:
        follower = asyncio.create_task(seen.follow(client, shape.namespace))
        try:
            await _measure_single(client, seen, shape, one_by_one)
            await _measure_batch(client, seen, shape, at_once)
        finally:
            follower.cancel()


async def _measure_single(client: Client, seen: Observation, shape: PodShape, count: int) -> None:
    scheduled, ready, gone = [], [], []
    stamp = int(time.time())
    for number in range(count):
        name = f"{_PREFIX}{stamp}-{number}"
        began = time.perf_counter()
        await client.create(shape.manifest(name))
        ready.append(await seen.wait([name], seen.ready) - began)
        scheduled.append(seen.scheduled[name] - began)
        ended = time.perf_counter()
        await client.delete(Pod, name, shape.namespace)
        gone.append(await seen.wait([name], seen.deleted) - ended)
    for step, values in (("scheduled", scheduled), ("ready", ready), ("gone", gone)):
        for figure, value in _percentiles(values):
            report(f"real_pod_{step}_{figure}_s", value)


async def _measure_batch(client: Client, seen: Observation, shape: PodShape, count: int) -> None:
    stamp = int(time.time())
    names = [f"{_PREFIX}{stamp}-all-{number}" for number in range(count)]
    began = time.perf_counter()
    await asyncio.gather(*(client.create(shape.manifest(name)) for name in names))
    report(f"real_pods_{count}_ready_s", await seen.wait(names, seen.ready) - began)
    ended = time.perf_counter()
    await asyncio.gather(*(client.delete(Pod, name, shape.namespace) for name in names))
    report(f"real_pods_{count}_gone_s", await seen.wait(names, seen.deleted) - ended)


def _percentiles(values: list[float]) -> Iterator[tuple[str, float]]:
    yield "p50", statistics.median(values)
    yield "p99", statistics.quantiles(values, n=100, method="inclusive")[98] if len(values) > 1 else values[0]


def report(figure: str, value: float) -> None:
    """Print a figure."""
    print(json.dumps({"figure": figure, "value": round(value, 3)}), flush=True)


def main() -> None:
    """Read the flags and measure."""
    parser = argparse.ArgumentParser("bench.real_node", description="Measure the start of pods on a running node.")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="kubeconfig of the cluster")
    parser.add_argument("--image", required=True, help="image that the node has; its program must not end")
    parser.add_argument("--command", nargs="+", default=[], help="program of the container instead of the image's")
    parser.add_argument("--node", default="", help="node that runs the pods (default: as scheduled)")
    parser.add_argument("--namespace", default="default", help="namespace of the pods (default: default)")
    parser.add_argument("--no-token", action="store_true", help="mount no service account token")
    parser.add_argument("--pods", type=int, default=20, help="pods that are started one at a time (default: 20)")
    parser.add_argument("--at-once", type=int, default=20, help="pods that are started together (default: 20)")
    flags = parser.parse_args()
    shape = PodShape(flags.namespace, flags.node, flags.image, tuple(flags.command), not flags.no_token)
    asyncio.run(measure(load_config(flags.kubeconfig), shape, flags.pods, flags.at_once))


if __name__ == "__main__":
    main()
