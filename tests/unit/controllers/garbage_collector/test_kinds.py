# SPDX-License-Identifier: Apache-2.0
"""Tests of discovery: fetched again only if something may have changed."""

from __future__ import annotations

import asyncio
from typing import Any

from kubeloop.api import errors
from kubeloop.controllers.garbage_collector.kinds import RestMapper

VERBS = ["delete", "list", "watch"]


class Server:
    """Serves ConfigMaps and given kinds; counts requests."""

    def __init__(self) -> None:
        self.now: object | None = object()
        self.kinds = ["ConfigMap"]
        self.asked = 0
        self.failing = False

    def discovery_version(self) -> object | None:
        return self.now

    async def document(self, path: str) -> Any:
        self.asked += 1
        if path == "/api":
            return {"versions": ["v1"]}
        if path == "/apis":
            return {"groups": []}
        if self.failing:
            raise errors.service_unavailable("out")
        resources = [
            {"name": f"{kind.lower()}s", "kind": kind, "namespaced": True, "verbs": VERBS} for kind in self.kinds
        ]
        return {"groupVersion": "v1", "resources": resources}


def plurals(kinds: RestMapper) -> list[str]:
    found = asyncio.run(kinds.refresh())
    return [one.plural for one in found.collectable]


def test_unchanged_etag_is_not_fetched_again() -> None:
    server = Server()
    kinds = RestMapper(server)
    assert plurals(kinds) == plurals(kinds) == ["configmaps"]
    assert server.asked == 3
    server.now, server.kinds = object(), ["ConfigMap", "Secret"]
    assert plurals(kinds) == ["configmaps", "secrets"]


def test_server_without_etags_is_fetched_each_time() -> None:
    server = Server()
    server.now = None
    kinds = RestMapper(server)
    assert plurals(kinds) == plurals(kinds)
    assert server.asked == 6


def test_incomplete_response_is_fetched_again() -> None:
    server = Server()
    server.failing = True
    kinds = RestMapper(server)
    assert plurals(kinds) == []
    server.failing = False
    assert plurals(kinds) == ["configmaps"]
