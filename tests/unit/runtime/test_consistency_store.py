# SPDX-License-Identifier: Apache-2.0
"""A key is not synced before the caches show the writes for it."""

from __future__ import annotations

import asyncio

import pytest

from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import ObjectMeta, Status
from kubeloop.clock import SystemClock
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.consistency_store import ConsistencyStore
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.list_watch import ResourceSelection
from kubeloop.runtime.objects.keys import ObjectKey
from tests.unit.runtime.in_process_server import Server, play, resource
from tests.unit.runtime.scripted_server import ScriptedSource, bookmark

KEY = ObjectKey("default", "a")


def idle_informer() -> Informer:
    informer = Informer(ScriptedSource(), ResourceSelection(resource("configmaps")), SystemClock())
    informer.replace([], "5")
    return informer


def answer(version: int) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="x", resource_version=str(version)))


def test_key_waits_for_its_latest_write() -> None:
    async def scenario(server: Server) -> None:
        informer = idle_informer()
        store = ConsistencyStore(informer)
        store.wrote_at(KEY, "ConfigMap", answer(9))
        store.wrote_at(KEY, "ConfigMap", answer(8))
        await store.wait_ready(ObjectKey("default", "other"))
        waiting = asyncio.create_task(store.wait_ready(KEY))
        informer.apply([bookmark(8)])
        await server.loop.settle()
        assert not waiting.done()
        informer.apply([bookmark(9)])
        await waiting

    play(scenario)


def test_version_is_awaited_once() -> None:
    async def scenario(server: Server) -> None:
        store = ConsistencyStore(idle_informer())
        store.wrote_at(KEY, "ConfigMap", answer(9))
        waiting = asyncio.create_task(store.wait_ready(KEY))
        await server.loop.advance(31)
        with pytest.raises(TimeoutError):
            await waiting
        await store.wait_ready(KEY)

    play(scenario)


@pytest.mark.parametrize("nothing", [None, Status(), answer(0)])
def test_responses_without_a_version_are_not_awaited(nothing: object) -> None:
    async def scenario(_: Server) -> None:
        store = ConsistencyStore(idle_informer())
        store.wrote_at(KEY, "ConfigMap", nothing)
        await store.wait_ready(KEY)

    play(scenario)


def test_writes_of_a_deleted_key_are_dropped() -> None:
    async def scenario(_: Server) -> None:
        store = ConsistencyStore(idle_informer())
        store.wrote_at(KEY, "ConfigMap", answer(9))
        store.clear(KEY)
        await store.wait_ready(KEY)

    play(scenario)


def test_only_a_wait_for_a_stale_cache_is_counted() -> None:
    async def scenario(_: Server) -> None:
        counts = MetricRegistry().counter("stale", "group", "resource")
        informer = idle_informer()
        store = ConsistencyStore(informer, stale_syncs=counts)
        store.wrote_at(KEY, "ConfigMap", answer(5))
        await store.wait_ready(KEY)
        assert list(counts.lines()) == []
        store.wrote_at(KEY, "ConfigMap", answer(6))
        waiting = asyncio.create_task(store.wait_ready(KEY))
        await asyncio.sleep(0)
        informer.apply([bookmark(6)])
        await waiting
        assert 'stale{group="",resource="configmaps"} 1' in list(counts.lines())

    play(scenario)
