"""Looking committed objects up: remembered while they stay, noticed when they change."""

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


def test_an_object_is_decoded_once_a_change(run):
    async def steps(store, lookup):
        assert lookup.find("namespaces", "", "shop") is None
        await store.write("/registry/namespaces/shop", _namespace(b"Active"))
        found = lookup.find("namespaces", "", "shop")
        assert found.status.phase == "Active"
        assert lookup.find("namespaces", "", "shop") is found
        await store.write("/registry/namespaces/shop", _namespace(b"Terminating"))
        assert lookup.find("namespaces", "", "shop").status.phase == "Terminating"
        await store.write("/registry/namespaces/shop", None)
        assert lookup.find("namespaces", "", "shop") is None

    run(steps)


def test_a_list_stays_the_same_until_an_object_of_its_kind_changes(run):
    async def steps(store, lookup):
        assert list(lookup.every("priorityclasses", "", GROUP)) == []
        await store.write("/registry/priorityclasses/a", _class(b"a", 1))
        listed = lookup.every("priorityclasses", "", GROUP)
        assert [known.value for known in listed] == [1]
        await store.write("/registry/namespaces/shop", _namespace(b"Active"))
        assert lookup.every("priorityclasses", "", GROUP) is listed
        await store.write("/registry/priorityclasses/a", _class(b"a", 2))
        assert [known.value for known in lookup.every("priorityclasses", "", GROUP)] == [2]

    run(steps)
