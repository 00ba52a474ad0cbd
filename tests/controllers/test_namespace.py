# SPDX-License-Identifier: Apache-2.0
"""Tests of namespace deletion: content is deleted, pods first; conditions report remaining content."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import InternalError, MethodNotAllowed, NotFound
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.core_v1 import ConfigMap, Namespace, Pod
from kubeloop.controllers import namespace as namespace_controller
from kubeloop.testing import Cluster, config_map, deployment, metadata, namespace, node, pod, secret, service
from tests.controllers.custom_resources import define, widget

HELD = ("example.com/held",)
WELL = {
    "NamespaceDeletionDiscoveryFailure": ("False", "ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("False", "ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": (
        "False",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}


@pytest.fixture
def plane(cluster: Cluster) -> Cluster:
    cluster.start(namespace_controller.wire, may_fail=True)  # as upstream's, it fails while content remains
    cluster.add(namespace("away"))
    cluster.settle()
    return cluster


def find(cluster: Cluster, kind: Any, name: str) -> Any:
    try:
        return cluster.client.get(kind, name, "" if kind is Namespace else "away")
    except NotFound:
        return None


def delete(cluster: Cluster) -> None:
    cluster.client.delete(Namespace, "away")
    cluster.settle()


def conditions(cluster: Cluster) -> dict[str, tuple[str, str, str]]:
    found = find(cluster, Namespace, "away").status.conditions
    return {one.type: (one.status, one.reason, one.message) for one in found}


def release(cluster: Cluster, kind: Any, name: str) -> None:
    cluster.client.patch(kind, name, {"metadata": {"finalizers": []}}, "away")
    cluster.settle()


def test_namespace_is_deleted_with_its_content(plane: Cluster) -> None:
    plane.add(config_map("a", namespace="away"), secret("b", namespace="away"), pod("c", "away"))
    plane.add(deployment("d", "away"), service("e", "away"), config_map("a"))
    delete(plane)
    assert find(plane, Namespace, "away") is None
    assert plane.client.get(ConfigMap, "a", "default") is not None
    for kind in ("configmaps", "secrets", "pods", "deployments", "services", "serviceaccounts"):
        assert plane.client.list(kind, "away").items == ()


def test_empty_namespace_is_deleted_immediately(plane: Cluster) -> None:
    delete(plane)
    assert find(plane, Namespace, "away") is None


def test_active_namespace_is_unchanged(plane: Cluster) -> None:
    plane.add(config_map("a", namespace="away"))
    plane.advance(hours=1)
    assert find(plane, ConfigMap, "a") is not None


def test_namespace_deleted_before_the_start_is_finalized(cluster: Cluster) -> None:
    cluster.add(namespace("away"), config_map("a", namespace="away"))
    delete(cluster)
    assert find(cluster, Namespace, "away").status.phase == "Terminating"
    cluster.start(namespace_controller.wire)
    assert find(cluster, Namespace, "away") is None


def test_custom_resources_of_a_new_kind_are_deleted(plane: Cluster) -> None:
    define(plane)
    plane.client.create(widget("w", "away"))
    plane.client.create(widget("w", "default"))
    delete(plane)
    assert find(plane, Namespace, "away") is None
    assert [one.metadata.namespace for one in plane.client.list("widgets.example.com").items] == ["default"]


# Remaining content


def test_remaining_finalizers_are_reported(plane: Cluster) -> None:
    plane.add(config_map("a", namespace="away", finalizers=HELD), config_map("b", namespace="away", finalizers=HELD))
    delete(plane)
    remaining = "Some resources are remaining: configmaps. has 2 resource instances"
    held = "Some content in the namespace has finalizers remaining: example.com/held in 2 resource instances"
    assert conditions(plane) == {
        **WELL,
        "NamespaceContentRemaining": ("True", "SomeResourcesRemain", remaining),
        "NamespaceFinalizersRemaining": ("True", "SomeFinalizersRemain", held),
    }
    release(plane, ConfigMap, "a")
    plane.advance(9)
    assert conditions(plane)["NamespaceContentRemaining"][2].endswith("configmaps. has 1 resource instances")
    release(plane, ConfigMap, "b")
    assert find(plane, Namespace, "away") is None


def test_remaining_resources_are_reported_in_order(plane: Cluster) -> None:
    held = deployment("d", "away")
    plane.add(held, config_map("a", namespace="away", finalizers=HELD))
    plane.client.patch("deployments", "d", {"metadata": {"finalizers": ["example.com/other"]}}, "away")
    delete(plane)
    assert conditions(plane)["NamespaceContentRemaining"][2] == (
        "Some resources are remaining: configmaps. has 1 resource instances, deployments.apps has 1 resource instances"
    )
    assert conditions(plane)["NamespaceFinalizersRemaining"][2] == (
        "Some content in the namespace has finalizers remaining: example.com/held in 1 resource instances, "
        "example.com/other in 1 resource instances"
    )


def test_conditions_recover_while_other_finalizers_remain(plane: Cluster) -> None:
    raw = plane.client.get(Namespace, "away")
    plane.client.patch(Namespace, "away", {"metadata": {"finalizers": list(HELD)}})
    plane.add(config_map("a", namespace="away", finalizers=HELD))
    delete(plane)
    since = {one.type: one.last_transition_time for one in find(plane, Namespace, "away").status.conditions}
    plane.advance(30)
    release(plane, ConfigMap, "a")
    found = find(plane, Namespace, "away")
    assert conditions(plane) == WELL
    assert found.spec.finalizers == ()
    changed = {one.type for one in found.status.conditions if one.last_transition_time != since[one.type]}
    assert changed == {"NamespaceContentRemaining", "NamespaceFinalizersRemaining"}
    plane.client.patch(Namespace, "away", {"metadata": {"finalizers": []}})
    assert find(plane, Namespace, "away") is None
    assert raw.metadata.uid == found.metadata.uid


def test_pods_are_deleted_first(plane: Cluster) -> None:
    plane.add(node("machine"), pod("p", "away", node="machine", phase="Running"), config_map("a", namespace="away"))
    delete(plane)
    assert find(plane, Pod, "p").metadata.deletion_timestamp is not None
    plane.advance(10)
    assert find(plane, ConfigMap, "a").metadata.deletion_timestamp is None
    assert conditions(plane)["NamespaceContentRemaining"][2].endswith("pods. has 1 resource instances")
    plane.client.delete(Pod, "p", "away", grace_seconds=0)
    plane.settle()
    assert find(plane, Namespace, "away") is None


def test_pod_beyond_its_grace_period_is_reported(plane: Cluster) -> None:
    plane.add(node("machine"), pod("p", "away", node="machine", phase="Running"))
    delete(plane)
    plane.advance(25)
    assert conditions(plane)["NamespaceDeletionContentFailure"][0] == "False"
    plane.advance(30)
    assert conditions(plane)["NamespaceDeletionContentFailure"] == (
        "True",
        "ContentDeletionFailed",
        "Failed to delete all resource types, 1 remaining: "
        "unexpected items still remain in namespace: away for gvr: /v1, Resource=pods",
    )


def test_failed_deletion_of_a_kind_is_reported_and_others_are_deleted(plane: Cluster) -> None:
    plane.add(config_map("a", namespace="away"), secret("b", namespace="away"))
    fault = plane.faults.fail("deletecollection", "secrets", InternalError("out of order"), times=None)
    delete(plane)
    assert find(plane, ConfigMap, "a") is None
    assert conditions(plane)["NamespaceDeletionContentFailure"] == (
        "True",
        "ContentDeletionFailed",
        "Failed to delete all resource types, 1 remaining: out of order",
    )
    fault.times = 0
    plane.advance(60)
    assert find(plane, Namespace, "away") is None


def test_kind_without_deletecollection_is_deleted_individually(plane: Cluster) -> None:
    plane.add(config_map("a", namespace="away"), config_map("b", namespace="away"))
    plane.faults.fail("deletecollection", "configmaps", MethodNotAllowed("no"), times=None)
    delete(plane)
    assert find(plane, Namespace, "away") is None


def test_undiscoverable_group_blocks_the_namespace(plane: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    document, broken = plane.async_client.document, {"/apis/batch/v1"}

    async def failing(path: str) -> Any:
        if path in broken:
            raise InternalError("no answer")
        return await document(path)

    monkeypatch.setattr(plane.async_client, "document", failing)
    delete(plane)
    assert conditions(plane)["NamespaceDeletionDiscoveryFailure"] == (
        "True",
        "DiscoveryFailed",
        "Discovery failed for some groups, 1 failing: "
        "unable to retrieve the complete list of server APIs: batch/v1: no answer",
    )
    broken.clear()
    plane.advance(60)
    assert find(plane, Namespace, "away") is None


def test_failed_discovery_blocks_the_namespace(plane: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(_: str) -> Any:
        raise InternalError("no answer at all")

    plane.add(config_map("a", namespace="away"))
    monkeypatch.setattr(plane.async_client, "document", failing)
    delete(plane)
    assert conditions(plane)["NamespaceDeletionDiscoveryFailure"] == ("True", "DiscoveryFailed", "no answer at all")
    assert find(plane, ConfigMap, "a") is not None


# Letting go


def test_conflicts_do_not_block_finalization(plane: Cluster) -> None:
    plane.faults.conflict("update", "namespaces", times=7)
    plane.faults.conflict("patch", "namespaces", times=3)
    delete(plane)
    plane.advance(5)
    assert find(plane, Namespace, "away") is None


def test_labels_and_other_finalizers_are_kept(plane: Cluster) -> None:
    plane.client.patch(Namespace, "away", {"metadata": {"labels": {"a": "b"}, "finalizers": list(HELD)}})
    delete(plane)
    found = find(plane, Namespace, "away")
    assert found.spec.finalizers == ()
    assert found.metadata.finalizers == HELD
    assert found.metadata.labels["a"] == "b"


def test_all_servers_must_observe_the_deletion(plane: Cluster) -> None:
    for name in ("one", "two"):
        labels = {"apiserver.kubernetes.io/identity": "kube-apiserver"}
        plane.client.create(Lease(metadata=metadata(name, "kube-system", labels=labels)))
    plane.add(config_map("a", namespace="away"))
    delete(plane)
    plane.advance(4)
    assert find(plane, ConfigMap, "a") is None
    assert find(plane, Namespace, "away") is not None
    plane.advance(2)
    assert find(plane, Namespace, "away") is None


def test_killed_controller_resumes(cluster: Cluster) -> None:
    loop = cluster.start(namespace_controller.wire)
    cluster.add(namespace("away"), config_map("a", namespace="away", finalizers=HELD))
    delete(cluster)
    cluster.stop(loop)
    release(cluster, ConfigMap, "a")
    cluster.start(namespace_controller.wire)
    assert find(cluster, Namespace, "away") is None


def test_unwatched_content_is_checked_again_soon(plane: Cluster) -> None:
    plane.add(config_map("a", namespace="away", finalizers=HELD))
    plane.faults.fail("watch", "configmaps", times=None)
    plane.faults.fail("list", "configmaps", times=None, chance=0.0)
    delete(plane)
    release(plane, ConfigMap, "a")
    plane.advance(3)
    assert find(plane, Namespace, "away") is None
