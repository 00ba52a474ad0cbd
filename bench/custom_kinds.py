# SPDX-License-Identifier: Apache-2.0
"""Measures custom resources: definitions, objects, and their latency."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from bench.connection import Connection
from bench.figures import NAMESPACE, ROOT, Call, Size, calls_on, config_map, encode, pod
from bench.program import Program

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_INSTALLED = 200
_ROUNDS = 5
_TEXT = {"type": "string", "maxLength": 2000}


def definition(plural: str, rules: bool = True) -> dict[str, Any]:
    """A kind of middling size: nested objects, a keyed list, defaults, limits, and a few rules."""
    item = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "maxLength": 63, "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"},
            "port": {"type": "integer", "minimum": 1, "maximum": 65535},
            "protocol": {"type": "string", "enum": ["TCP", "UDP"], "default": "TCP"},
        },
    }
    spec: dict[str, Any] = {
        "type": "object",
        "required": ["text"],
        "properties": {
            "text": _TEXT,
            "replicas": {"type": "integer", "minimum": 0, "default": 1},
            "ports": {
                "type": "array",
                "maxItems": 16,
                "items": item,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "labels": {"type": "object", "maxProperties": 20, "additionalProperties": _TEXT},
        },
    }
    if rules:
        spec["x-kubernetes-validations"] = [
            {"rule": "self.replicas <= 10", "message": "at most ten"},
            {"rule": "!has(self.ports) || self.ports.all(p, p.protocol != 'UDP' || p.port != 80)"},
        ]
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object", "properties": {"at": _TEXT}}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Text", "type": "string", "jsonPath": ".spec.text"}],
    }
    kind = plural.capitalize()
    names = {"plural": plural, "kind": kind, "listKind": f"{kind}List", "singular": plural.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.bench.example.org"},
        "spec": {"group": "bench.example.org", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def custom_object(name: str, plural: str) -> bytes:
    """Return an object as large as the config maps it is compared with."""
    ports = [{"name": f"p{number}", "port": 8000 + number} for number in range(3)]
    spec = {"text": "some text " * 90, "replicas": 2, "ports": ports}
    head = {"apiVersion": "bench.example.org/v1", "kind": plural.capitalize(), "metadata": {"name": name}}
    return encode({**head, "spec": spec})


def _collection(plural: str) -> str:
    return f"/apis/bench.example.org/v1/namespaces/{NAMESPACE}/{plural}"


async def figures(program: Program, size: Size) -> AsyncIterator[tuple[str, float]]:
    """All figures about custom resources."""
    async for figure in _installed(program):
        yield figure
    async for figure in _created(program, size):
        yield figure
    yield "custom_served_ms", await _served_ms(program)


async def _installed(program: Program) -> AsyncIterator[tuple[str, float]]:
    connections = [await Connection.open(program.port, program.tls()) for _ in range(8)]
    calls: list[Call] = [
        ("POST", DEFINITIONS, encode(definition(f"unused{number}")), "application/json") for number in range(_INSTALLED)
    ]
    await connections[0].call("POST", DEFINITIONS, encode(definition("first")))  # what is loaded but once
    before = program.resident_mib()
    took = await calls_on(connections, calls)
    took += await _until_established(program, f"unused{_INSTALLED - 1}")
    yield "install_200_definitions_s", took
    await asyncio.sleep(1)  # until what follows a change has ended
    yield "unused_definition_kib", (program.resident_mib() - before) * 1024 / _INSTALLED
    for connection in connections:
        connection.close()


async def _until_established(program: Program, plural: str) -> float:
    began = time.perf_counter()
    watcher = await Connection.open(program.port, program.tls())
    name = f"metadata.name%3D{plural}.bench.example.org"
    stream = await watcher.watch(f"{DEFINITIONS}?watch=1&resourceVersion=0&fieldSelector={name}")
    await stream.readuntil(b'"type":"Established"')
    watcher.close()
    return time.perf_counter() - began


async def _created(program: Program, size: Size) -> AsyncIterator[tuple[str, float]]:
    """Measure all kinds alternately, under equal conditions."""
    connections = [await Connection.open(program.port, program.tls()) for _ in range(size.connections)]
    await connections[0].call("POST", DEFINITIONS, encode(definition("gadgets")))
    await _until_established(program, "gadgets")
    kinds: dict[str, tuple[str, Callable[[str], bytes]]] = {
        "custom": (_collection("gadgets"), lambda name: custom_object(name, "gadgets")),
        "configmaps": (f"{ROOT}/configmaps", config_map),
        "pods": (f"{ROOT}/pods", pod),
    }
    rates: dict[str, list[float]] = {kind: [] for kind in kinds}
    each = max(1, size.objects // _ROUNDS)
    for turn in range(_ROUNDS):
        for kind, (path, make) in kinds.items():
            calls: list[Call] = [("POST", path, make(f"in{turn}-{i}"), "application/json") for i in range(each)]
            rates[kind].append(each / await calls_on(connections, calls))
    for connection in connections:
        connection.close()
    found = {kind: statistics.median(measured) for kind, measured in rates.items()}
    yield "create_custom_per_s", found["custom"]
    yield "create_custom_to_configmaps", found["custom"] / found["configmaps"]
    yield "create_custom_to_pods", found["custom"] / found["pods"]


async def _served_ms(program: Program) -> float:
    """Measure from sending a definition until an object of it is created and watched."""
    connection = await Connection.open(program.port, program.tls())
    took = []
    for turn in range(_ROUNDS):
        plural = f"fresh{turn}"
        watcher = await Connection.open(program.port, program.tls())
        began = time.perf_counter()
        await connection.call("POST", DEFINITIONS, encode(definition(plural)))
        while True:
            try:
                await connection.call("POST", _collection(plural), custom_object("one", plural))
                break
            except RuntimeError:
                await asyncio.sleep(0.001)
        stream = await watcher.watch(f"{_collection(plural)}?watch=1&resourceVersion=0")
        await stream.readuntil(b'"name":"one"')
        took.append(time.perf_counter() - began)
        watcher.close()
    connection.close()
    return 1000 * statistics.median(took)
