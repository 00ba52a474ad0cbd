# SPDX-License-Identifier: Apache-2.0
"""Tests of quota usage for all kinds."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import Forbidden
from kubeloop.api.generated.core_v1 import ConfigMap, PersistentVolumeClaim, Pod, ResourceQuota, Service
from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.controllers.resourcequota import wire
from kubeloop.testing import Cluster, config_map, container, persistent_volume_claim, pod, secret, service
from tests.controllers.custom_resources import define, widget
from tests.controllers.permissions import start_as

NS = "default"
PERIOD = 300


def quota(name: str = "q", scopes: tuple[str, ...] = (), selector: Any = None, **hard: str) -> dict[str, Any]:
    """Names are written with underscores for dots, and two for a slash."""
    limits = {key.replace("__", "/").replace("_", "."): value for key, value in hard.items()}
    spec: dict[str, Any] = {"hard": limits}
    if scopes:
        spec["scopes"] = list(scopes)
    if selector is not None:
        spec["scopeSelector"] = {"matchExpressions": selector}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "namespace": NS}, "spec": spec}


def asking(name: str, requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **spec: Any) -> Any:
    resources = {"requests": requests or {}, "limits": limits or {}}
    container = {"name": "c", "image": "x", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NS},
        "spec": {"containers": [container], **spec},
    }


def status(cluster: Cluster, name: str = "q") -> tuple[dict[str, Any], dict[str, Any]]:
    found = cluster.client.get(ResourceQuota, name, NS).status
    return dict(found.hard), dict(found.used)


def used(cluster: Cluster, name: str = "q") -> dict[str, Any]:
    return status(cluster, name)[1]


@pytest.fixture
def plane(cluster: Cluster) -> Cluster:
    cluster.start(wire)
    return cluster


def test_new_quota_status_has_hard_and_used(plane: Cluster) -> None:
    plane.add(asking("one", {"cpu": "600m", "memory": "64Mi"}), config_map("kept"))
    plane.client.create(quota(pods="2", requests_cpu="1", memory="1Gi", count__configmaps="10", limits_cpu="4"))
    plane.settle()
    assert status(plane) == (
        {"pods": "2", "requests.cpu": "1", "memory": "1Gi", "count/configmaps": "10", "limits.cpu": "4"},
        {"pods": "1", "requests.cpu": "600m", "memory": "64Mi", "count/configmaps": "1", "limits.cpu": "0"},
    )


def test_quota_from_before_the_start_is_counted(cluster: Cluster) -> None:
    cluster.client.create(quota(secrets="3"))
    cluster.add(secret("a"))
    cluster.start(wire)
    assert used(cluster) == {"secrets": "1"}


def test_deleted_objects_free_quota(plane: Cluster) -> None:
    plane.client.create(quota(configmaps="1"))
    plane.settle()
    plane.add(config_map("a"))
    with pytest.raises(Forbidden, match="exceeded quota"):
        plane.add(config_map("b"))
    plane.client.delete(ConfigMap, "a", NS)
    plane.settle()
    assert used(plane) == {"configmaps": "0"}
    plane.add(config_map("b"))


def test_terminated_pod_frees_resources_but_counts_as_object(plane: Cluster) -> None:
    plane.client.create(quota(pods="2", requests_cpu="1", count__pods="5"))
    plane.settle()
    plane.add(asking("one", {"cpu": "500m"}))
    assert used(plane) == {"pods": "1", "requests.cpu": "500m", "count/pods": "1"}
    plane.client.patch(Pod, "one", {"status": {"phase": "Succeeded"}}, NS, subresource="status")
    plane.settle()
    assert used(plane) == {"pods": "0", "requests.cpu": "0", "count/pods": "1"}


def test_changed_limits_are_copied_to_the_status(plane: Cluster) -> None:
    plane.client.create(quota(pods="2", secrets="3"))
    plane.settle()
    plane.client.patch(ResourceQuota, "q", {"spec": {"hard": {"pods": "7", "secrets": None, "configmaps": "1"}}}, NS)
    plane.settle()
    assert status(plane) == ({"pods": "7", "configmaps": "1"}, {"pods": "0", "configmaps": "0"})


def test_empty_quota_has_an_empty_status(plane: Cluster) -> None:
    plane.client.create(quota())
    plane.settle()
    assert status(plane) == ({}, {})


@pytest.mark.parametrize(
    ("scopes", "counted"),
    [
        (("BestEffort",), "2"),
        (("NotBestEffort",), "2"),
        (("Terminating",), "2"),
        (("NotTerminating",), "2"),
        (("BestEffort", "NotTerminating"), "1"),
        (("NotBestEffort", "Terminating"), "1"),
    ],
)
def test_only_objects_matching_all_scopes_are_counted(plane: Cluster, scopes: tuple[str, ...], counted: str) -> None:
    plane.add(
        asking("best"),
        asking("best-ending", activeDeadlineSeconds=60),
        asking("sized", {"cpu": "1"}),
        asking("sized-ending", {"cpu": "1"}, activeDeadlineSeconds=60),
    )
    plane.client.create(quota(scopes=scopes, pods="9"))
    plane.settle()
    assert used(plane) == {"pods": counted}


@pytest.mark.parametrize(
    ("operator", "values", "counted"),
    [("In", ["high"], "1"), ("NotIn", ["high"], "2"), ("Exists", [], "2"), ("DoesNotExist", [], "1")],
)
def test_scope_selector_matches_priority_classes(
    plane: Cluster, operator: str, values: list[str], counted: str
) -> None:
    for name, value in (("high", 10), ("low", 1)):
        meta = {"name": name}
        plane.client.create(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}
        )
    plane.add(asking("plain"), asking("low", priorityClassName="low"), asking("high", priorityClassName="high"))
    chosen: dict[str, Any] = {"scopeName": "PriorityClass", "operator": operator}
    plane.client.create(quota(selector=[{**chosen, "values": values} if values else chosen], pods="9"))
    plane.settle()
    assert used(plane) == {"pods": counted}


def test_cross_namespace_affinity_is_a_scope(plane: Cluster) -> None:
    term = {"topologyKey": "zone", "namespaces": ["other"], "labelSelector": {"matchLabels": {"a": "b"}}}
    far = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    plane.add(asking("near"), asking("far", affinity=far))
    plane.client.create(quota(scopes=("CrossNamespacePodAffinity",), pods="9"))
    plane.settle()
    assert used(plane) == {"pods": "1"}


def test_pod_changing_its_scope_is_recounted(plane: Cluster) -> None:
    plane.client.create(quota("short", scopes=("Terminating",), pods="9"))
    plane.client.create(quota("long", scopes=("NotTerminating",), pods="9"))
    plane.settle()
    plane.add(asking("one"))
    assert (used(plane, "short"), used(plane, "long")) == ({"pods": "0"}, {"pods": "1"})
    plane.client.patch(Pod, "one", {"spec": {"activeDeadlineSeconds": 60}}, NS)
    plane.settle()
    assert (used(plane, "short"), used(plane, "long")) == ({"pods": "1"}, {"pods": "0"})


def test_service_changing_its_type_frees_node_ports(plane: Cluster) -> None:
    plane.client.create(quota(services_nodeports="9", services_loadbalancers="9"))
    plane.settle()
    plane.add(service("a", type="LoadBalancer"))
    assert used(plane) == {"services.nodeports": "1", "services.loadbalancers": "1"}
    plane.client.patch(Service, "a", {"spec": {"type": "ClusterIP", "ports": [{"port": 80, "nodePort": None}]}}, NS)
    plane.settle()
    assert used(plane) == {"services.nodeports": "0", "services.loadbalancers": "0"}


def test_storage_is_counted_in_total_and_by_class(plane: Cluster) -> None:
    hard = {
        "requests.storage": "10Gi",
        "persistentvolumeclaims": "5",
        "gold.storageclass.storage.k8s.io/requests.storage": "5Gi",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "2",
    }
    wanted = quota()
    wanted["spec"]["hard"] = hard
    plane.add(
        persistent_volume_claim("a", storage="1Gi"),
        persistent_volume_claim("b", storage="2Gi", storage_class_name="gold"),
    )
    plane.client.create(wanted)
    plane.settle()
    assert list(used(plane).values()) == ["1", "2Gi", "2", "3Gi"]
    plane.client.delete(PersistentVolumeClaim, "b", NS)
    plane.client.patch(PersistentVolumeClaim, "b", {"metadata": {"finalizers": None}}, NS)
    plane.settle()
    assert used(plane)["gold.storageclass.storage.k8s.io/requests.storage"] == "0"


def test_devices_are_counted_by_class(plane: Cluster) -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 3}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": NS},
        "spec": {"devices": {"requests": [request]}},
    }
    plane.client.create(claim)
    wanted = quota(count__resourceclaims_resource_k8s_io="3")
    wanted["spec"]["hard"]["gpu.deviceclass.resource.k8s.io/devices"] = "9"
    plane.client.create(wanted)
    plane.settle()
    assert sorted(used(plane).values()) == ["1", "3"]
    plane.client.delete(ResourceClaim, "c", NS)
    plane.settle()
    assert sorted(used(plane).values()) == ["0", "0"]


def test_custom_resources_are_counted_when_their_kind_is_served(plane: Cluster) -> None:
    plane.client.create(quota(count__widgets_example_com="2", pods="1"))
    plane.settle()
    assert used(plane) == {"pods": "0"}
    define(plane)
    plane.advance(5)
    assert used(plane) == {"pods": "0", "count/widgets.example.com": "0"}
    plane.client.create(widget("one"))
    plane.client.create(widget("two"))
    with pytest.raises(Forbidden, match="exceeded quota"):
        plane.client.create(widget("three"))
    plane.client.delete("widgets.example.com", "one", NS)
    plane.settle()
    assert used(plane)["count/widgets.example.com"] == "1"


def test_inapplicable_scopes_count_nothing(plane: Cluster) -> None:
    plane.add(service("a"))
    plane.client.create(quota(scopes=("BestEffort",), pods="3"))
    plane.settle()
    assert used(plane) == {"pods": "0"}


def test_charge_of_a_failed_create_is_released(plane: Cluster) -> None:
    plane.client.create(quota(secrets="3"))
    plane.settle()
    plane.client.patch(ResourceQuota, "q", {"status": {"used": {"secrets": "2"}}}, NS, subresource="status")
    plane.advance(11)
    assert used(plane) == {"secrets": "0"}


def test_quotas_are_recounted_periodically(plane: Cluster) -> None:
    """A pod that terminates longer than its grace period is no longer counted, without an event."""
    plane.client.create(quota(pods="3"))
    plane.settle()
    plane.add(pod("stuck", node="n", phase="Running", containers=(container(),)))
    plane.client.delete(Pod, "stuck", NS, grace_seconds=30)
    plane.advance(20)
    assert used(plane) == {"pods": "1"}
    plane.advance(PERIOD + 1)
    assert used(plane) == {"pods": "0"}


def test_idle_quotas_are_not_written(plane: Cluster) -> None:
    plane.client.create(quota(pods="3", requests_cpu="1000m"))
    plane.advance(60)
    before = plane.client.get(ResourceQuota, "q", NS).metadata.resource_version
    plane.advance(hours=1)
    assert plane.client.get(ResourceQuota, "q", NS).metadata.resource_version == before


def test_controllers_role_is_sufficient(cluster: Cluster) -> None:
    start_as(cluster, "resourcequota-controller", wire)
    cluster.client.create(quota(configmaps="2"))
    cluster.settle()
    cluster.add(config_map("a"))
    cluster.client.delete(ConfigMap, "a", NS)
    cluster.settle()
    assert status(cluster) == ({"configmaps": "2"}, {"configmaps": "0"})
