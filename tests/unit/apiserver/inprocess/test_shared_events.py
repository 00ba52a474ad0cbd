# SPDX-License-Identifier: Apache-2.0
"""Tests of watch events that watchers within the process share, and of the objects in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import ConfigMap, Pod
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.testing import Cluster

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "default", "finalizers": ["example.com/held"]},
    "spec": {"containers": [{"name": "main", "image": "example.com/a:1"}]},
}


class _Watchers:
    """Several informers of one resource, each with its own watch, and the objects that they were given."""

    def __init__(self, cluster: Cluster, resource: Resource) -> None:
        self.added: list[Any] = []
        self.deleted: list[Any] = []
        self._cluster = cluster
        self._factories = [SharedInformerFactory(cluster.async_client, cluster.clock) for _ in range(3)]
        for factory in self._factories:
            handler = ResourceEventHandlerFuncs(on_add=self.added.append, on_delete=self.deleted.append)
            factory.for_resource(resource).add_handler(handler)
        cluster.run(self._start())

    async def _start(self) -> None:
        for factory in self._factories:
            factory.start()
            await factory.wait_synced()

    async def stop(self) -> None:
        for factory in self._factories:
            await factory.stop()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        yield made


def _watch(cluster: Cluster, cls: type) -> _Watchers:
    return _Watchers(cluster, resource_of_class(cls))


def test_watchers_of_a_resource_get_the_same_objects(cluster: Cluster) -> None:
    watchers = _watch(cluster, ConfigMap)
    watchers.added.clear()
    cluster.client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))
    cluster.client.delete(ConfigMap, "a", "default")
    cluster.settle()
    for objects in (watchers.added, watchers.deleted):
        assert len(objects) == 3
        assert all(one is objects[0] for one in objects)
    assert int(watchers.deleted[0].metadata.resource_version) > int(watchers.added[0].metadata.resource_version)
    cluster.run(watchers.stop())


def test_deletion_leaves_the_shared_object_as_it_was(cluster: Cluster) -> None:
    watchers = _watch(cluster, Pod)
    cluster.add(POD)
    cluster.settle()
    shown = watchers.added[-1]
    version = shown.metadata.resource_version
    cluster.client.delete(Pod, "a", "default", grace_seconds=0)
    cluster.settle()
    assert shown.metadata.deletion_timestamp is None
    assert shown.metadata.resource_version == version
    left = cluster.client.get(Pod, "a", "default")
    assert left.metadata.deletion_timestamp is not None
    assert left.spec == shown.spec
    cluster.client.patch(Pod, "a", {"metadata": {"finalizers": None}}, "default")
    cluster.run(watchers.stop())
