"""What has no owner left is deleted, in the background; what has one stays."""

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


def test_dependents_go_after_their_owner_through_all_generations(gc: Cluster) -> None:
    app = gc.add(deployment("app"))
    rs = gc.add(replica_set("rs", owner=app))
    gc.add(pod("pod", owner=rs), pod("other"))
    gc.settle()
    gc.client.delete("deployments", "app", "default", propagation="Background")
    gc.settle()
    assert gc.client.list("replicasets").items == ()
    assert [one.metadata.name for one in gc.client.list("pods").items] == ["other"]


def test_object_stays_as_long_as_one_of_its_owners_does(gc: Cluster) -> None:
    first, second = gc.add(config_map("first")), gc.add(config_map("second"))
    gc.add(owned("child", reference(first), reference(second)))
    delete(gc, "first")
    assert [one.uid for one in find(gc, "child").metadata.owner_references] == [second.metadata.uid]
    delete(gc, "second")
    assert find(gc, "child") is None


def test_object_whose_owner_never_was_goes(gc: Cluster) -> None:
    gc.add(owned("child", ABSENT))
    gc.settle()
    assert find(gc, "child") is None


def test_namesake_of_an_owner_is_another(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(owned("child", reference(owner, uid="another")))
    gc.settle()
    assert find(gc, "child") is None
    assert find(gc, "owner") is not None


def test_garbage_from_before_the_start_is_found(cluster: Cluster) -> None:
    owner = cluster.add(config_map("owner"))
    cluster.add(owned("child", reference(owner)), owned("lost", ABSENT))
    cluster.client.delete(ConfigMap, "owner", "default")
    cluster.add(owned("kept", reference(cluster.add(config_map("other")))))
    cluster.start(garbage_collector.wire)
    assert find(cluster, "child") is None
    assert find(cluster, "lost") is None
    assert find(cluster, "kept") is not None


def test_owner_without_a_namespace_owns_in_any(gc: Cluster) -> None:
    machine = gc.add(node("machine"))
    gc.add(namespace("far"), owned("child", reference(machine), namespace="far"))
    gc.settle()
    assert find(gc, "child", "far") is not None
    gc.client.delete(Node, "machine")
    gc.settle()
    assert find(gc, "child", "far") is None


@pytest.mark.parametrize("owner_first", [True, False])
def test_owner_in_another_namespace_is_none_and_people_are_told(cluster: Cluster, owner_first: bool) -> None:
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


def test_wrong_reference_takes_nobody_along_whose_reference_is_right(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(owned("right", reference(owner)))
    gc.add(owned("wrong-kind", reference(owner, kind="Secret")))
    gc.add(owned("wrong-name", reference(owner, name="other")))
    gc.settle()
    assert find(gc, "wrong-kind") is None
    assert find(gc, "wrong-name") is None
    assert find(gc, "right") is not None


@pytest.mark.parametrize("wrong_first", [True, False])
def test_dependents_that_disagree_about_a_missing_owner_all_go(gc: Cluster, wrong_first: bool) -> None:
    children = [
        owned("one", OwnerReference(api_version="v1", kind="Secret", name="gone", uid="1234")),
        owned("two", OwnerReference(api_version="v1", kind="ConfigMap", name="gone", uid="1234")),
    ]
    gc.add(*(children if wrong_first else reversed(children)))
    gc.advance(10)
    assert find(gc, "one") is None
    assert find(gc, "two") is None


def test_owner_may_be_named_in_any_version_that_is_served(gc: Cluster) -> None:
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


def test_owner_of_a_kind_that_nobody_serves_is_no_reason_to_delete(gc: Cluster) -> None:
    gc.add(owned("child", reference(gc.add(config_map("x")), api_version="example.com/v1", kind="Thing", uid="77")))
    gc.advance(minutes=10)
    assert find(gc, "child") is not None


def test_cluster_scoped_object_with_a_namespaced_owner_stays(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    machine = node("machine")
    gc.add(type(machine)(metadata=type(machine.metadata)(name="m", owner_references=(reference(owner, uid="9"),))))
    gc.advance(minutes=5)
    assert gc.client.get(Node, "m") is not None


def test_object_that_was_adopted_meanwhile_stays(gc: Cluster) -> None:
    owner, other = gc.add(config_map("owner")), gc.add(config_map("other"))
    gc.add(owned("child", reference(owner)))
    gc.settle()
    gc.faults.drop_watches("configmaps")  # from here on the collector is behind
    gc.client.delete(ConfigMap, "owner", "default")
    adopted = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": other.metadata.uid}
    gc.client.patch(ConfigMap, "child", {"metadata": {"ownerReferences": [adopted]}}, "default")
    gc.advance(60)
    assert find(gc, "child") is not None


def test_object_that_changes_all_the_time_goes_nevertheless(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(owned("child", reference(owner)))
    gc.settle()
    gc.faults.conflict("delete", "configmaps", name="child", times=3)
    delete(gc, "owner")
    gc.advance(1)
    assert find(gc, "child") is None


def test_server_that_fails_is_asked_again(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(owned("child", reference(owner)))
    gc.settle()
    gc.faults.fail("delete", "configmaps", ServiceUnavailable("not now"), name="child", times=3)
    delete(gc, "owner")
    gc.advance(5)
    assert find(gc, "child") is None


def test_dependent_that_comes_after_its_owner_has_gone_goes_too(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    delete(gc, "owner")
    gc.add(owned("child", reference(owner)))
    gc.settle()
    assert find(gc, "child") is None


def test_reference_that_is_added_later_counts(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(config_map("child"))
    gc.settle()
    added = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
    gc.client.patch(ConfigMap, "child", {"metadata": {"ownerReferences": [added]}}, "default")
    gc.settle()
    delete(gc, "owner")
    assert find(gc, "child") is None


def test_deletion_says_why_it_was_made(gc: Cluster) -> None:
    owner = gc.add(config_map("owner"))
    gc.add(owned("child", reference(owner), finalizers=("example.com/kept",)))
    gc.settle()
    delete(gc, "owner")
    (entry,) = [one for one in gc.context.telemetry.journal.entries() if one.writes]
    assert [(one.verb, one.name) for one in entry.writes] == [("delete", "child")]
    assert [(one.kind, one.name, one.event) for one in entry.origins] == [("ConfigMap", "owner", "DELETED")]
