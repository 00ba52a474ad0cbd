# SPDX-License-Identifier: Apache-2.0
"""Measures the latency of other clients while one sends expensive requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from bench.connection import Connection
from bench.custom_kinds import DEFINITIONS
from bench.figures import NAMESPACE, ROOT, encode
from bench.program import Program

_GROUP = "hostile.example.org"
_PAUSE_SECONDS = 0.002


def _definition(plural: str, spec: dict[str, Any]) -> bytes:
    kind = plural.capitalize()
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    return encode(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{_GROUP}"},
            "spec": {
                "group": _GROUP,
                "scope": "Namespaced",
                "names": {"plural": plural, "kind": kind},
                "versions": [version],
            },
        }
    )


def _object(plural: str, spec: bytes) -> bytes:
    head = encode({"apiVersion": f"{_GROUP}/v1", "kind": plural.capitalize(), "metadata": {"name": "one"}})
    return head[:-1] + b',"spec":' + spec + b"}"


_NUMBERS = {"type": "array", "maxItems": 400, "items": {"type": "integer"}}
_RULES = [{"rule": f"self.l.all(x, self.l.all(y, x + y >= {turn}))"} for turn in range(3)]
_ROWS = {"type": "object", "properties": {name: {"type": "string"} for name in ("a", "b", "c")}, "required": ["d"]}
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_CASES: dict[str, tuple[dict[str, Any], bytes]] = {
    "rules": (
        {"type": "object", "properties": {"l": _NUMBERS}, "x-kubernetes-validations": _RULES},
        encode({"l": list(range(400))}),
    ),
    "containers": (_OPEN, b'{"l":[' + b"{}," * 990_000 + b"{}]}"),
    "unknown": (_ROWS, b'{"l":[' + b"{}," * 990_000 + b"{}]}"),
    "errors": (
        {"type": "object", "properties": {"l": {"type": "array", "items": _ROWS}}},
        b'{"l":[' + b'{"a":1},' * 180_000 + b"{}]}",
    ),
    "large": (_OPEN, encode({"l": [{"name": f"n{i}", "value": "x" * 20, "is": [i]} for i in range(20_000)]})),
}


async def figures(program: Program) -> AsyncIterator[tuple[str, float]]:
    """Measure each hostile object: the duration of its request, and the longest small read meanwhile."""
    for name, (spec, sent) in _CASES.items():
        plural = f"{name}s" if not name.endswith("s") else name
        connection = await Connection.open(program.port, program.tls())
        await connection.call("POST", DEFINITIONS, _definition(plural, spec))
        await asyncio.sleep(0.2)
        path = f"/apis/{_GROUP}/v1/namespaces/{NAMESPACE}/{plural}"
        took, longest = await _beside(program, connection, path, _object(plural, sent))
        yield f"hostile_{name}_s", took
        yield f"hostile_{name}_others_wait_ms", 1000 * longest
        connection.close()


async def _beside(program: Program, connection: Connection, path: str, body: bytes) -> tuple[float, float]:
    """Measure a request, and the longest of the small reads made meanwhile."""
    other = await Connection.open(program.port, program.tls())
    ended = False
    longest = 0.0

    async def read() -> None:
        nonlocal longest
        while not ended:
            began = time.perf_counter()
            await other.call("GET", f"{ROOT}/serviceaccounts/default")
            longest = max(longest, time.perf_counter() - began)
            await asyncio.sleep(_PAUSE_SECONDS)

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.05)
    began = time.perf_counter()
    with suppress(RuntimeError):  # most of it is refused in the end
        await connection.call("POST", path, body)
    took = time.perf_counter() - began
    ended = True
    await reading
    other.close()
    return took, longest
