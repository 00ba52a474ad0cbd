# SPDX-License-Identifier: Apache-2.0
"""Simulated nodes of the real program: how soon they are there, how soon pods are ready, and what that takes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from bench.connection import Connection
from bench.figures import NAMESPACE, encode, pod, prepare
from bench.program import Program, running
from bench.stores import cpu_seconds

_DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
_SMALL, _MIDDLING, _LARGE = 10, 100, 5000  # nodes
_PODS_OF_MIDDLING, _PODS_OF_LARGE = 1000, 10_000
_FULL = 50_000  # pods on the large cluster in the end
_PATIENCE = 300.0  # seconds for any one step


async def figures(folder: Path, full: bool) -> AsyncIterator[tuple[str, float]]:
    """All figures; with `full` also the memory of many pods, which takes minutes."""
    await asyncio.to_thread(folder.mkdir)
    yield "load_average", os.getloadavg()[0]
    async for name, value in _first_pod(folder / "small"):
        yield name, value
    async with running(folder / "middling", nodes=_MIDDLING) as program:
        await prepare(program)
        async for name, value in _rollout(program, "many", _PODS_OF_MIDDLING):
            yield f"pods_{_PODS_OF_MIDDLING}_on_{_MIDDLING}_nodes_{name}", value
    async with running(folder / "large", nodes=_LARGE) as program:
        async for name, value in _large(program, full):
            yield name, value
    yield "load_average", os.getloadavg()[0]


async def _first_pod(folder: Path) -> AsyncIterator[tuple[str, float]]:
    """Measure from the start of the process until a pod is ready: in a new folder, and in an existing one."""
    for start, name in (("first_start", "one"), ("start", "another")):
        began = time.perf_counter()
        async with running(folder, nodes=_SMALL) as program:
            connection = await Connection.open(program.port, program.tls())
            path = "/api/v1/namespaces/default/pods"
            await connection.call("POST", path, pod(name))
            stream = await connection.watch(f"{path}?watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion=0")
            async with asyncio.timeout(_PATIENCE):
                while not _is_ready(msgspec.json.decode(await _event(stream))["object"]["status"]):
                    pass
            yield f"nodes_{_SMALL}_{start}_to_pod_ready_s", time.perf_counter() - began
            yield f"nodes_{_SMALL}_{start}_to_pod_ready_cpu_s", cpu_seconds([program])
            connection.close()


async def _large(program: Program, full: bool) -> AsyncIterator[tuple[str, float]]:
    yield f"nodes_{_LARGE}_registered_s", program.start_seconds
    yield f"nodes_{_LARGE}_registered_cpu_s", cpu_seconds([program])
    yield f"nodes_{_LARGE}_mib", program.resident_mib()
    await prepare(program)
    async for name, value in _rollout(program, "p0", _PODS_OF_LARGE):
        yield f"pods_{_PODS_OF_LARGE}_on_{_LARGE}_nodes_{name}", value
    if full:
        for number in range(1, _FULL // _PODS_OF_LARGE):
            async for name, value in _rollout(program, f"p{number}", _PODS_OF_LARGE):
                yield f"pods_{(number + 1) * _PODS_OF_LARGE}_on_{_LARGE}_nodes_{name}", value


async def _rollout(program: Program, name: str, pods: int) -> AsyncIterator[tuple[str, float]]:
    """Measure from the creation of a Deployment until all its pods are ready."""
    connection = await Connection.open(program.port, program.tls())
    began, used = time.perf_counter(), cpu_seconds([program])
    await connection.call("POST", _DEPLOYMENTS, _deployment(name, pods))
    stream = await connection.watch(f"{_DEPLOYMENTS}?watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion=0")
    async with asyncio.timeout(_PATIENCE):
        while msgspec.json.decode(await _event(stream))["object"]["status"].get("readyReplicas", 0) < pods:
            pass
    yield "ready_s", time.perf_counter() - began
    yield "ready_cpu_s", cpu_seconds([program]) - used
    yield "mib", program.resident_mib()
    connection.close()


def _deployment(name: str, pods: int) -> bytes:
    template = msgspec.json.decode(pod("unnamed"))
    labels = {"app": name}
    spec = {
        "replicas": pods,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
    }
    return encode({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})


async def _event(stream: asyncio.StreamReader) -> bytes:
    """Return the next event of a watch; each event is one chunk."""
    size = int(await stream.readuntil(b"\r\n"), 16)
    return (await stream.readexactly(size + 2))[:-2]


def _is_ready(status: dict[str, list[dict[str, str]]]) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ()))
