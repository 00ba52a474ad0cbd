# SPDX-License-Identifier: Apache-2.0
"""Measures writes, reads and watches of a running server."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import msgspec

from bench.connection import Connection
from bench.program import Program

NAMESPACE = "bench"
ROOT = f"/api/v1/namespaces/{NAMESPACE}"
STRATEGIC = "application/strategic-merge-patch+json"
_WRITERS = 4
_READ_BYTES = 2**20
_LINES_AN_EVENT = 3  # the chunk's size, the event, the chunk's end
encode = msgspec.json.encode

# (method, path, body, content type)
Call = tuple[str, str, bytes, str]


@dataclass(frozen=True, slots=True)
class Size:
    """Sizes of the measurements."""

    objects: int
    connections: int
    watchers: int
    events: int


def config_map(name: str) -> bytes:
    return encode(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "some text " * 100}}
    )


def pod(name: str, template: int = 0) -> bytes:
    """A pod of one template or another, which differ in labels, image and environment."""
    container = {
        "name": "app",
        "image": f"registry.k8s.io/pause-{template}:3.10",
        "env": [{"name": f"SETTING_{number}", "value": f"some value, not long {template}"} for number in range(8)],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
        "ports": [{"containerPort": 8080, "name": "http"}],
    }
    metadata = {"name": name, "labels": {"app": f"bench-{template}"}}
    return encode({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})


async def prepare(program: Program) -> None:
    """The namespace, and its service account, which pods wait for."""
    connection = await Connection.open(program.port, program.tls())
    await connection.call("POST", "/api/v1/namespaces", encode({"metadata": {"name": NAMESPACE}}))
    watch = await connection.watch(f"{ROOT}/serviceaccounts?watch=1&resourceVersion=0&timeoutSeconds=60")
    await watch.readuntil(b'"name":"default"')
    connection.close()


def request_kinds() -> dict[str, Callable[[int], Call]]:
    """Return the kinds of measured requests by their figure, each made from a number."""
    touched = encode({"metadata": {"annotations": {"touched": "yes"}}})
    running = encode({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
    return {
        "create_configmaps_per_s": lambda i: ("POST", f"{ROOT}/configmaps", config_map(f"c{i}"), "application/json"),
        "create_pods_per_s": lambda i: ("POST", f"{ROOT}/pods", pod(f"p{i}"), "application/json"),
        "get_pods_per_s": lambda i: ("GET", f"{ROOT}/pods/p{i}", b"", "application/json"),
        "patch_pods_per_s": lambda i: ("PATCH", f"{ROOT}/pods/p{i}", touched, STRATEGIC),
        "patch_status_per_s": lambda i: ("PATCH", f"{ROOT}/pods/p{i}/status", running, STRATEGIC),
    }


async def request_rates(program: Program, size: Size) -> AsyncIterator[tuple[str, float]]:
    """Measure requests per second of each kind over several connections."""
    for name, make in request_kinds().items():
        calls = [make(i) for i in range(size.objects)]
        connections = [await Connection.open(program.port, program.tls()) for _ in range(size.connections)]
        yield name, len(calls) / await calls_on(connections, calls)
        _close(connections)


async def calls_on(connections: list[Connection], calls: list[Call]) -> float:
    """Measure the duration of calls over a pool of connections."""
    waiting = iter(calls)

    async def work(connection: Connection) -> None:
        for call in waiting:
            await connection.call(*call)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as workers:
        for connection in connections:
            workers.create_task(work(connection))
    return time.perf_counter() - began


def _close(connections: list[Connection]) -> None:
    for connection in connections:
        connection.close()


async def list_seconds(program: Program) -> float:
    """A list of all the pods; the median of five."""
    connection = await Connection.open(program.port, program.tls())
    took = []
    for _ in range(5):
        began = time.perf_counter()
        await connection.call("GET", f"{ROOT}/pods")
        took.append(time.perf_counter() - began)
    connection.close()
    return statistics.median(took)


async def watch_rate(program: Program, size: Size) -> float:
    """Deliveries a second while a few writers' changes go to many watchers."""
    connections = [await Connection.open(program.port, program.tls()) for _ in range(size.watchers + _WRITERS)]
    writers, watchers = connections[:_WRITERS], connections[_WRITERS:]
    listed = msgspec.json.decode(await writers[0].call("GET", f"{ROOT}/configmaps?limit=1"))
    path = f"{ROOT}/configmaps?watch=1&resourceVersion={listed['metadata']['resourceVersion']}"
    streams = [await watcher.watch(path) for watcher in watchers]
    calls: list[Call] = [
        ("POST", f"{ROOT}/configmaps", config_map(f"w{number}"), "application/json") for number in range(size.events)
    ]

    async def count(stream: asyncio.StreamReader) -> None:
        seen = 0
        while seen < size.events * _LINES_AN_EVENT:
            seen += (await stream.read(_READ_BYTES)).count(b"\n")

    began = time.perf_counter()
    async with asyncio.TaskGroup() as readers:
        for stream in streams:
            readers.create_task(count(stream))
        await calls_on(writers, calls)
    took = time.perf_counter() - began
    _close(connections)
    return size.events * size.watchers / took
