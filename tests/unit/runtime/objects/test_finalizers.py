# SPDX-License-Identifier: Apache-2.0
"""Tests of finalizers: added and removed without affecting others."""

from __future__ import annotations

import pytest

from kubeloop.api.errors import Conflict
from kubeloop.api.generated import core_v1, meta_v1
from kubeloop.runtime.objects.finalizers import ensure_finalizer, remove_finalizer
from tests.unit.runtime.in_process_server import Server, play, resource

MAPS = resource("configmaps")
OURS, OTHERS = "example.com/ours", "example.com/others"


async def created(server: Server, *finalizers: str) -> core_v1.ConfigMap:
    meta = meta_v1.ObjectMeta(name="a", namespace="d", finalizers=finalizers)
    made: core_v1.ConfigMap = await server.create(MAPS, core_v1.ConfigMap(metadata=meta))
    return made


def test_finalizer_is_added_once_beside_others() -> None:
    async def scenario(server: Server) -> None:
        obj = await created(server, OTHERS)
        with_ours = await ensure_finalizer(server.client, MAPS, obj, OURS)
        assert with_ours.metadata.finalizers == (OTHERS, OURS)
        assert await ensure_finalizer(server.client, MAPS, with_ours, OURS) is with_ours

    play(scenario)


def test_finalizer_is_removed_and_others_are_kept() -> None:
    async def scenario(server: Server) -> None:
        obj = await created(server, OTHERS, OURS)
        without = await remove_finalizer(server.client, MAPS, obj, OURS)
        assert without.metadata.finalizers == (OTHERS,)
        assert await remove_finalizer(server.client, MAPS, without, OURS) is without

    play(scenario)


def test_concurrently_changed_object_is_a_conflict() -> None:
    async def scenario(server: Server) -> None:
        obj = await created(server, OURS)
        await server.patch(MAPS, "d", "a", {"metadata": {"finalizers": [OURS, OTHERS]}})
        with pytest.raises(Conflict):
            await ensure_finalizer(server.client, MAPS, obj, "example.com/another")
        with pytest.raises(Conflict):
            await remove_finalizer(server.client, MAPS, obj, OURS)
        assert (await server.client.get(MAPS, "a", "d")).metadata.finalizers == (OURS, OTHERS)

    play(scenario)


def test_removing_the_last_finalizer_deletes_the_object() -> None:
    async def scenario(server: Server) -> None:
        await created(server, OURS)
        await server.delete(MAPS, "d", "a")
        dying = await server.client.get(MAPS, "a", "d")
        await remove_finalizer(server.client, MAPS, dying, OURS)
        assert (await server.client.list(MAPS, "d")).items == ()
        assert await remove_finalizer(server.client, MAPS, dying, OURS) is None

    play(scenario)
