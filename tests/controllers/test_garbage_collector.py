# SPDX-License-Identifier: Apache-2.0
"""Tests of background deletion: objects without an owner are deleted, others are kept."""

from __future__ import annotations

import pytest

from kubeloop.api.errors import ServiceUnavailable
from kubeloop.api.generated.core_v1 import ConfigMap, Node
from kubeloop.api.generated.meta_v1 import OwnerReference
from kubeloop.controllers import garbage_collector
from kubeloop.testing import Cluster, config_map, deployment, namespace, node, pod, replica_set
from tests.controllers.ownership import delete, find, owned, reference

ABSENT = OwnerReference(api_version="v1", kind="ConfigMap", name="never", uid="0000")


@pytest.fixture
def gc(cluster: Cluster) -> Cluster:
    cluster.start(garbage_collector.wire)
    return cluster


def test_dependents_are_deleted_after_their_owner_in_all_generations(gc: Cluster) -> None:
    app = gc.add(deployment("app"))
    rs = gc.add(replica_set("rs", owner=app))
    gc.add(pod("pod", owner=rs), pod("other"))
    gc.settle()
    gc.client.delete("deployments", "app", "default", propagation="Background")
    gc.settle()
    assert gc.client.list("replicasets").items == ()
    assert [one.metadata.name for one in gc.client.list("pods").items] == ["other"]


def test_object_is_kept_while_an_owner_exists(gc: Cluster) -> None:
    first, second = gc.add(config_map("first")), gc.add(config_map("second"))
    gc.add(owned("child", reference(first), reference(second)))
    delete(gc, "first")
    assert [one.uid for one in find(gc, "child").metadata.owner_references] == [second.metadata.uid]
    delete(gc, "second")
    assert find(gc, "child") is None


def test_object_with_a_nonexistent_owner_is_deleted(gc: Cluster) -> None:
    gc.add(owned("child", ABSENT))
    gc.settle()
    assert find(gc, "child") is None


def test_owner_with_the_same_name_and_another_uid_does_not_count(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(owned("child", reference(owner, uid="another")))
    gc.settle()
    assert find(gc, "child") is None
    assert find(gc, "owner") is not None


def test_garbage_from_before_the_start_is_collected(cluster: Cluster) -> None:
    owner = cluster.add(config_map("owner"))
    cluster.add(owned("child", reference(owner)), owned("lost", ABSENT))
    cluster.client.delete(ConfigMap, "owner", "default")
    cluster.add(owned("kept", reference(cluster.add(config_map("other")))))
    cluster.start(garbage_collector.wire)
    assert find(cluster, "child") is None
    assert find(cluster, "lost") is None
    assert find(cluster, "kept") is not None


def test_cluster_scoped_owner_owns_objects_in_any_namespace(gc: Cluster) -> None:
    machine = gc.add(node("machine"))
    gc.add(namespace("far"), owned("child", reference(machine), namespace="far"))
    gc.settle()
    assert find(gc, "child", "far") is not None
    gc.client.delete(Node, "machine")
    gc.settle()
    assert find(gc, "child", "far") is None


@pytest.mark.parametrize("owner_first", [True, False])
def test_owner_in_another_namespace_is_absent_and_records_an_event(cluster: Cluster, owner_first: bool) -> None:
    if owner_first:
        cluster.start(garbage_collector.wire)
    owner = cluster.add(config_map("owner"))
    cluster.settle()
    cluster.add(namespace("far"), owned("child", reference(owner), namespace="far"))
    cluster.settle()
    if not owner_first:
        cluster.start(garbage_collector.wire)
    assert find(cluster, "child", "far") is None
    assert find(cluster, "owner") is not None
    if owner_first:
        (event,) = cluster.events("far", reason="OwnerRefInvalidNamespace")
        uid = owner.metadata.uid
        about = f"[v1/ConfigMap, namespace: far, name: owner, uid: {uid}]"
        assert event.message == f'ownerRef {about} does not exist in namespace "far"'
        assert (event.type, event.source.component) == ("Warning", "garbage-collector-controller")
        assert (event.involved_object.kind, event.involved_object.name) == ("ConfigMap", "child")


def test_invalid_reference_does_not_affect_dependents_with_valid_ones(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(owned("right", reference(owner)))
    gc.add(owned("wrong-kind", reference(owner, kind="Secret")))
    gc.add(owned("wrong-name", reference(owner, name="other")))
    gc.settle()
    assert find(gc, "wrong-kind") is None
    assert find(gc, "wrong-name") is None
    assert find(gc, "right") is not None


@pytest.mark.parametrize("wrong_first", [True, False])
def test_dependents_with_conflicting_references_to_a_missing_owner_are_deleted(gc: Cluster, wrong_first: bool) -> None:
    children = [
        owned("one", OwnerReference(api_version="v1", kind="Secret", name="gone", uid="1234")),
        owned("two", OwnerReference(api_version="v1", kind="ConfigMap", name="gone", uid="1234")),
    ]
    gc.add(*(children if wrong_first else reversed(children)))
    gc.advance(10)
    assert find(gc, "one") is None
    assert find(gc, "two") is None


def test_owner_can_be_referenced_in_any_served_version(gc: Cluster) -> None:
    spec = {"minReplicas": 1, "maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "X", "name": "x"}}
    owner = gc.client.create(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "owner", "namespace": "default"},
            "spec": spec,
        }
    )
    gc.add(owned("child", reference(owner, api_version="autoscaling/v1")))
    gc.advance(60)
    assert find(gc, "child") is not None
    gc.client.delete("horizontalpodautoscalers", "owner", "default")
    gc.settle()
    assert find(gc, "child") is None


def test_owner_of_an_unserved_kind_prevents_deletion(gc: Cluster) -> None:
    gc.add(owned("child", reference(gc.add(config_map("x")), api_version="example.com/v1", kind="Thing", uid="77")))
    gc.advance(minutes=10)
    assert find(gc, "child") is not None


def test_cluster_scoped_object_with_a_namespaced_owner_is_kept(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    machine = node("machine")
    gc.add(type(machine)(metadata=type(machine.metadata)(name="m", owner_references=(reference(owner, uid="9"),))))
    gc.advance(minutes=5)
    assert gc.client.get(Node, "m") is not None


def test_object_adopted_concurrently_is_kept(gc: Cluster) -> None:
    owner, other = gc.add(config_map("owner")), gc.add(config_map("other"))
    gc.add(owned("child", reference(owner)))
    gc.settle()
    gc.faults.drop_watches("configmaps")  # from here on the collector is behind
    gc.client.delete(ConfigMap, "owner", "default")
    adopted = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": other.metadata.uid}
    gc.client.patch(ConfigMap, "child", {"metadata": {"ownerReferences": [adopted]}}, "default")
    gc.advance(60)
    assert find(gc, "child") is not None


def test_frequently_changing_object_is_deleted(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(owned("child", reference(owner)))
    gc.settle()
    gc.faults.conflict("delete", "configmaps", name="child", times=3)
    delete(gc, "owner")
    gc.advance(1)
    assert find(gc, "child") is None


def test_failing_server_is_retried(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(owned("child", reference(owner)))
    gc.settle()
    gc.faults.fail("delete", "configmaps", ServiceUnavailable("not now"), name="child", times=3)
    delete(gc, "owner")
    gc.advance(5)
    assert find(gc, "child") is None


def test_dependent_created_after_its_owners_deletion_is_deleted(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    delete(gc, "owner")
    gc.add(owned("child", reference(owner)))
    gc.settle()
    assert find(gc, "child") is None


def test_reference_added_later_is_honored(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(config_map("child"))
    gc.settle()
    added = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
    gc.client.patch(ConfigMap, "child", {"metadata": {"ownerReferences": [added]}}, "default")
    gc.settle()
    delete(gc, "owner")
    assert find(gc, "child") is None


def test_deletion_is_journaled_with_its_cause(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(owned("child", reference(owner), finalizers=("example.com/kept",)))
    gc.settle()
    delete(gc, "owner")
    (entry,) = [one for one in gc.context.telemetry.journal.entries() if one.writes]
    assert [(one.verb, one.name) for one in entry.writes] == [("delete", "child")]
    assert [(one.kind, one.name, one.event) for one in entry.origins] == [("ConfigMap", "owner", "DELETED")]
