# SPDX-License-Identifier: Apache-2.0
"""Tests of registry lookups: cached until an object changes."""

from __future__ import annotations

import asyncio

import pytest

from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.admission.lookup import RegistryLookup
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import SystemClock
from kubeloop.store.memory import MemoryStore

GROUP = "scheduling.k8s.io"


@pytest.fixture
def run():
    """Runs a test's steps against a fresh store."""

    def with_store(steps):
        async def whole():
            store = MemoryStore()
            await store.start()
            await steps(store, RegistryLookup(StorageRegistry(store, RESOURCES, SystemClock())))
            await store.close()

        asyncio.run(whole())

    return with_store


def _namespace(phase):
    return b'{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"shop"},"status":{"phase":"%b"}}' % phase


def _class(name, value):
    head = b'{"kind":"PriorityClass","apiVersion":"scheduling.k8s.io/v1","metadata":{"name":"%b"},"value":%d}'
    return head % (name, value)


def test_object_is_decoded_once_per_change(run):
    async def steps(store, lookup):
        assert lookup.get_object("namespaces", "", "shop") is None
        await store.write("/registry/namespaces/shop", _namespace(b"Active"))
        found = lookup.get_object("namespaces", "", "shop")
        assert found.status.phase == "Active"
        assert lookup.get_object("namespaces", "", "shop") is found
        await store.write("/registry/namespaces/shop", _namespace(b"Terminating"))
        assert lookup.get_object("namespaces", "", "shop").status.phase == "Terminating"
        await store.write("/registry/namespaces/shop", None)
        assert lookup.get_object("namespaces", "", "shop") is None

    run(steps)


def test_list_is_cached_until_an_object_of_its_kind_changes(run):
    async def steps(store, lookup):
        assert list(lookup.list_objects("priorityclasses", "", GROUP)) == []
        await store.write("/registry/priorityclasses/a", _class(b"a", 1))
        listed = lookup.list_objects("priorityclasses", "", GROUP)
        assert [known.value for known in listed] == [1]
        await store.write("/registry/namespaces/shop", _namespace(b"Active"))
        assert lookup.list_objects("priorityclasses", "", GROUP) is listed
        await store.write("/registry/priorityclasses/a", _class(b"a", 2))
        assert [known.value for known in lookup.list_objects("priorityclasses", "", GROUP)] == [2]

    run(steps)
