# SPDX-License-Identifier: Apache-2.0
"""Tests of calls with the class and the objects of a custom kind."""

from __future__ import annotations

import pytest
from msgspec import Struct
from msgspec.structs import replace

from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.client import Forbidden, UsageError
from kubeloop.operator import Controller, ControllerContext, CustomKind, CustomObject, ObjectKey, own_key
from kubeloop.testing import Cluster, config_map, metadata


class Spec(Struct, frozen=True, kw_only=True):
    schedule: str
    keep: int = 3


class Status(Struct, frozen=True, kw_only=True):
    done: int


class Backup(CustomObject, frozen=True, kw_only=True):
    spec: Spec
    status: Status = Status(done=0)


BACKUPS = CustomKind(Backup, "backups.example.com/v1")


def backup(name: str = "nightly", **spec: object) -> Backup:
    return Backup(metadata=metadata(name, "default"), spec=Spec(schedule="@daily", **spec))


@pytest.fixture
def served(cluster: Cluster) -> Cluster:
    cluster.define(BACKUPS)
    return cluster


def test_object_is_added_and_read_as_its_class(served: Cluster) -> None:
    made = served.add(backup(keep=5))
    assert isinstance(made, Backup)
    found = served.client.get(Backup, "nightly", "default")
    assert (found, found.spec.keep, bool(found.metadata.uid)) == (made, 5, True)


def test_status_is_added(served: Cluster) -> None:
    made = served.add(replace(backup(), status=Status(done=2)))
    assert made.status.done == served.client.get(Backup, "nightly", "default").status.done == 2


def test_all_verbs_take_the_class(served: Cluster) -> None:
    client = served.client
    made = client.create(backup())
    made = client.update(replace(made, spec=Spec(schedule="@daily", keep=4)))
    assert (type(made), made.spec.keep) == (Backup, 4)
    assert client.patch(Backup, "nightly", {"spec": {"keep": 5}}, "default").spec.keep == 5
    assert client.apply(backup(keep=6), manager="test", force=True).spec.keep == 6
    assert [one.spec.keep for one in client.list(Backup, "default").items] == [6]
    client.delete(Backup, "nightly", "default")
    assert client.list(Backup).items == ()


def test_watch_yields_typed_objects(served: Cluster) -> None:
    served.add(backup())

    async def first() -> object:
        async for events in served.async_client.watch(Backup, "default", resource_version="0"):
            return events[0].object
        return None

    assert served.run(first()) == served.client.get(Backup, "nightly", "default")


def test_metadata_only_stays_metadata(served: Cluster) -> None:
    served.add(backup())
    assert not isinstance(served.client.get(Backup, "nightly", "default", metadata_only=True), Backup)


def test_users_and_forks_know_the_class(served: Cluster) -> None:
    served.add(backup())
    with pytest.raises(Forbidden):
        served.as_user("ann").get(Backup, "nightly", "default")
    with served.fork() as fork:
        assert fork.client.get(Backup, "nightly", "default").spec.keep == 3


def test_controller_that_declares_a_kind_gets_and_patches_its_class(cluster: Cluster) -> None:
    def wire(context: ControllerContext) -> Controller[ObjectKey]:
        backups = context.informers.for_resource(context.declare_kind(BACKUPS))

        async def reconcile(key: ObjectKey) -> None:
            found = await context.client.get(Backup, key.name, key.namespace)
            await context.client.apply(config_map(found.metadata.name, {"keep": str(found.spec.keep)}), manager="b")

        controller = Controller("backups", reconcile, context.clock)
        controller.watches(backups, own_key)
        return controller

    cluster.start(wire)
    cluster.add(backup(keep=7))
    cluster.settle()
    assert cluster.client.get(ConfigMap, "nightly", "default").data == {"keep": "7"}


@pytest.mark.parametrize("use", [lambda one: one.add(backup()), lambda one: one.client.list(Backup)])
def test_unknown_class_says_what_to_do(cluster: Cluster, use: object) -> None:
    with pytest.raises(UsageError, match=r"Backup is not the class of .* cluster\.define\(kind\) in a test"):
        use(cluster)
