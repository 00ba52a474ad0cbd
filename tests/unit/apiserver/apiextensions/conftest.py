# SPDX-License-Identifier: Apache-2.0
"""Definitions for tests, and an API server that they are installed in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.org/v1/namespaces/shop/things"
NAME = "things.example.org"


def version(name: str = "v1", storage: bool = True, schema: Any = None, **facts: Any) -> dict[str, Any]:
    root = {"type": "object", **(schema or {"x-kubernetes-preserve-unknown-fields": True})}
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": root}, **facts}


def definition(*versions: dict[str, Any], plural: str = "things", kind: str = "Thing", **spec: Any) -> dict[str, Any]:
    names = {"plural": plural, "kind": kind, **spec.pop("names", {})}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": names,
            "versions": list(versions) or [version()],
            **spec,
        },
    }


def thing(name: str, api_version: str = "example.org/v1", **rest: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "Thing", "metadata": {"name": name}, **rest}


def fields(**properties: Any) -> dict[str, Any]:
    """Return a schema whose spec has these properties."""
    return {"properties": {"spec": {"type": "object", "properties": properties}}}


@pytest.fixture
def install(api) -> Callable[..., Any]:
    """Creates a definition, which must succeed."""

    def make(*versions: dict[str, Any], **spec: Any) -> Any:
        return api.made(DEFINITIONS, definition(*versions, **spec))

    return make


@pytest.fixture
def settle(api) -> Callable[[], None]:
    """Lets background work of the server finish."""

    async def turns() -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    return lambda: api._runner.run(turns())
