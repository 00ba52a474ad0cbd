# SPDX-License-Identifier: Apache-2.0
"""Owners that go last, owners that let go, and circles of owners."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.apps_v1 import Deployment, ReplicaSet
from kubeloop.api.generated.core_v1 import ConfigMap, Pod
from kubeloop.controllers import garbage_collector
from kubeloop.testing import Cluster, config_map, deployment, pod, replica_set
from tests.controllers.ownership import delete, find, finish, owned, reference

HELD = ("example.com/held",)


@pytest.fixture
def gc(cluster: Cluster) -> Cluster:
    cluster.start(garbage_collector.wire)
    return cluster


def finalizers(cluster: Cluster, name: str, kind: Any = ConfigMap) -> tuple[str, ...]:
    return tuple(find(cluster, name, kind=kind).metadata.finalizers)


# Foreground


def test_foreground_deletion_waits_for_blocking_dependents(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(owned("child", reference(owner, block=True), finalizers=HELD))
    gc.add(owned("other", reference(owner, block=True)))
    gc.settle()
    delete(gc, "owner", "Foreground")
    assert find(gc, "other") is None
    assert find(gc, "child").metadata.deletion_timestamp is not None
    assert finalizers(gc, "owner") == ("foregroundDeletion",)
    finish(gc, "child")
    assert find(gc, "child") is None
    assert find(gc, "owner") is None


def test_non_blocking_dependents_are_not_waited_for(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(owned("child", reference(owner), finalizers=HELD))
    gc.settle()
    delete(gc, "owner", "Foreground")
    assert find(gc, "owner") is None
    assert find(gc, "child").metadata.deletion_timestamp is not None


def test_grandchildren_are_deleted_first(gc: Cluster) -> None:
    app = gc.add(deployment("app"))
    rs = gc.add(replica_set("rs", owner=app))
    gc.add(pod("pod", owner=rs))
    gc.client.patch(Pod, "pod", {"metadata": {"finalizers": list(HELD)}}, "default")
    gc.settle()
    delete(gc, "app", "Foreground", Deployment)
    assert finalizers(gc, "rs", ReplicaSet) == ("foregroundDeletion",)
    assert finalizers(gc, "app", Deployment) == ("foregroundDeletion",)
    finish(gc, "pod", Pod)
    assert [find(gc, name, kind=kind) for name, kind in (("rs", ReplicaSet), ("app", Deployment))] == [None, None]


def test_dependent_with_another_owner_is_kept_and_unblocked(gc: Cluster) -> None:
    owner, other = gc.add(config_map("owner")), gc.add(config_map("other"))
    gc.add(owned("child", reference(owner, block=True), reference(other, block=True)))
    gc.settle()
    delete(gc, "owner", "Foreground")
    assert find(gc, "owner") is None
    assert [one.uid for one in find(gc, "child").metadata.owner_references] == [other.metadata.uid]


def test_unblocked_dependent_releases_its_owner(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(owned("child", reference(owner, block=True), finalizers=HELD))
    gc.settle()
    delete(gc, "owner", "Foreground")
    assert find(gc, "owner") is not None
    free = {"uid": owner.metadata.uid, "blockOwnerDeletion": False}
    free |= {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
    gc.client.patch(ConfigMap, "child", {"metadata": {"ownerReferences": [free]}}, "default")
    gc.settle()
    assert find(gc, "owner") is None


def test_dependent_created_during_foreground_deletion_is_waited_for(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(owned("child", reference(owner, block=True), finalizers=HELD))
    gc.settle()
    delete(gc, "owner", "Foreground")
    gc.add(owned("late", reference(owner, block=True), finalizers=HELD))
    gc.settle()
    assert find(gc, "late").metadata.deletion_timestamp is not None
    finish(gc, "child")
    assert find(gc, "owner") is not None
    finish(gc, "late")
    assert find(gc, "owner") is None


def test_other_finalizers_are_kept_after_dependents_are_deleted(gc: Cluster) -> None:
    owner = gc.add(config_map("owner", finalizers=HELD))
    gc.add(owned("child", reference(owner, block=True)))
    gc.settle()
    delete(gc, "owner", "Foreground")
    assert find(gc, "child") is None
    assert finalizers(gc, "owner") == HELD


def test_object_without_dependents_is_deleted_immediately_in_foreground(gc: Cluster) -> None:
    gc.add(config_map("owner"))
    gc.settle()
    delete(gc, "owner", "Foreground")
    assert find(gc, "owner") is None


def test_conflicts_delay_but_do_not_prevent_deletion(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(owned("child", reference(owner, block=True)))
    gc.settle()
    gc.faults.conflict("patch", "configmaps", times=7)
    gc.faults.conflict("delete", "configmaps", times=7)
    delete(gc, "owner", "Foreground")
    gc.advance(5)
    assert find(gc, "owner") is None


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_ownership_cycle_is_deleted_in_foreground(gc: Cluster, length: int) -> None:
    names = [f"link-{number}" for number in range(length)]
    made = [gc.add(config_map(name)) for name in names]
    for number, name in enumerate(names):
        owner = made[number - 1]
        link = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner.metadata.name, "uid": owner.metadata.uid}
        link |= {"blockOwnerDeletion": True}
        gc.client.patch(ConfigMap, name, {"metadata": {"ownerReferences": [link]}}, "default")
    gc.advance(60)
    assert all(find(gc, name) is not None for name in names)
    delete(gc, names[0], "Foreground")
    gc.advance(60)
    assert [find(gc, name) for name in names] == [None] * length


def test_ownership_cycle_is_deleted_in_background(gc: Cluster) -> None:
    first = gc.add(config_map("first"))
    second = gc.add(owned("second", reference(first, block=True)))
    link = {"apiVersion": "v1", "kind": "ConfigMap", "name": "second", "uid": second.metadata.uid}
    gc.client.patch(ConfigMap, "first", {"metadata": {"ownerReferences": [link]}}, "default")
    gc.settle()
    delete(gc, "first", "Background")
    assert find(gc, "second") is None


# Orphans


def test_orphaned_dependents_are_kept_without_owner_reference(gc: Cluster) -> None:
    owner, other = gc.add(config_map("owner")), gc.add(config_map("other"))
    gc.add(owned("child", reference(owner, block=True)), owned("shared", reference(owner), reference(other)))
    gc.settle()
    delete(gc, "owner", "Orphan")
    assert find(gc, "owner") is None
    assert find(gc, "child").metadata.owner_references == ()
    assert [one.uid for one in find(gc, "shared").metadata.owner_references] == [other.metadata.uid]
    gc.advance(minutes=5)
    assert find(gc, "child") is not None


def test_owner_is_kept_until_all_dependents_are_orphaned(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(owned("child", reference(owner)), owned("stuck", reference(owner)))
    gc.settle()
    fault = gc.faults.fail("patch", "configmaps", name="stuck", times=None)
    delete(gc, "owner", "Orphan")
    gc.advance(30)
    assert finalizers(gc, "owner") == ("orphan",)
    assert find(gc, "child").metadata.owner_references == ()
    fault.times = 0
    gc.advance(60)
    assert find(gc, "owner") is None
    assert find(gc, "stuck").metadata.owner_references == ()


def test_dependents_are_orphaned_even_if_the_collector_is_late(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(*(owned(f"child-{number}", reference(owner)) for number in range(5)))
    gc.settle()
    gc.client.delete(ConfigMap, "owner", "default", propagation="Orphan")
    gc.faults.expire_watches("configmaps")
    gc.advance(60)
    assert find(gc, "owner") is None
    assert all(find(gc, f"child-{number}") is not None for number in range(5))


def test_pending_orphaning_is_completed_at_start(cluster: Cluster) -> None:
    owner = cluster.add(config_map("owner"))
    cluster.add(owned("child", reference(owner)))
    cluster.client.delete(ConfigMap, "owner", "default", propagation="Orphan")
    other = cluster.add(config_map("other"))
    cluster.add(owned("blocking", reference(other, block=True)))
    cluster.client.delete(ConfigMap, "other", "default", propagation="Foreground")
    cluster.start(garbage_collector.wire)
    assert (find(cluster, "owner"), find(cluster, "other"), find(cluster, "blocking")) == (None, None, None)
    assert find(cluster, "child").metadata.owner_references == ()


def test_collected_object_with_orphan_finalizer_orphans_its_dependents(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    child = gc.add(owned("child", reference(owner), finalizers=("orphan",)))
    gc.add(owned("grandchild", reference(child)))
    gc.settle()
    delete(gc, "owner", "Background")
    assert find(gc, "child") is None
    assert find(gc, "grandchild").metadata.owner_references == ()


def test_killed_collector_restarts_its_work(cluster: Cluster) -> None:
    owner = cluster.add(config_map("owner"))
    cluster.add(owned("child", reference(owner, block=True), finalizers=HELD))
    loop = cluster.start(garbage_collector.wire)
    delete(cluster, "owner", "Foreground")
    cluster.stop(loop)
    finish(cluster, "child")
    assert find(cluster, "owner") is not None
    cluster.start(garbage_collector.wire)
    assert find(cluster, "owner") is None
