# SPDX-License-Identifier: Apache-2.0
"""Tests of optional versions and features: served, described, converted, stored; and absent by default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kubeloop.api.errors import ApiError, Forbidden, Invalid, NotFound
from kubeloop.api.features.optional_resources import OPTIONAL_RESOURCES
from kubeloop.api.generated.scheduling_v1alpha3 import PodGroup as OldPodGroup
from kubeloop.api.generated.scheduling_v1beta1 import PodGroup
from kubeloop.api.protobuf import decode_object, encode_object, open_envelope
from kubeloop.testing import Cluster

Make = Callable[..., Cluster]
ALL: Any = {
    "runtime_config": "api/all=true",
    "feature_gates": "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true",
}
NS = "default"


def group(version: str = "v1beta1", name: str = "g", **spec: Any) -> dict[str, Any]:
    api = f"scheduling.k8s.io/{version}"
    spec = {"schedulingPolicy": {"basic": {}}, **spec}
    return {"apiVersion": api, "kind": "PodGroup", "metadata": {"name": name, "namespace": NS}, "spec": spec}


def document(cluster: Cluster, path: str) -> Any:
    return cluster.run(cluster.async_client.document(path))


def pod(**spec: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": NS}, "spec": spec}


def test_discovery_has_enabled_versions_in_order_with_api_services(make_cluster: Make) -> None:
    cluster = make_cluster(**ALL)
    versions = [one["version"] for one in document(cluster, "/apis/scheduling.k8s.io")["versions"]]
    assert versions == ["v1", "v1beta1", "v1alpha3"]
    listed = document(cluster, "/apis/scheduling.k8s.io/v1alpha3")["resources"]
    assert [one["name"] for one in listed] == [
        "compositepodgroups",
        "compositepodgroups/status",
        "podgroups",
        "podgroups/status",
        "workloads",
    ]
    service = cluster.client.get("apiservices", "v1alpha3.scheduling.k8s.io")
    assert (service.spec.group_priority_minimum, service.spec.version_priority) == (16600, 3)


def test_disabled_versions_are_not_served_by_default(cluster: Cluster) -> None:
    assert [one["version"] for one in document(cluster, "/apis/scheduling.k8s.io")["versions"]] == ["v1"]
    with pytest.raises(NotFound):
        cluster.client.create(group())
    assert "io.k8s.api.scheduling.v1beta1.PodGroup" not in document(cluster, "/openapi/v2")["definitions"]


def test_openapi_has_enabled_versions(make_cluster: Make) -> None:
    cluster = make_cluster(**ALL)
    described = document(cluster, "/openapi/v3/apis/scheduling.k8s.io/v1beta1")["components"]["schemas"]
    assert "gang" in described["io.k8s.api.scheduling.v1beta1.PodGroupSchedulingPolicy"]["properties"]
    assert "io.k8s.api.scheduling.v1beta1.PodGroup" in document(cluster, "/openapi/v2")["definitions"]


def test_object_is_read_and_written_in_each_version(make_cluster: Make) -> None:
    cluster = make_cluster(**ALL)
    cluster.client.create(group("v1alpha3"))
    new, old = cluster.client.get(PodGroup, "g", NS), cluster.client.get(OldPodGroup, "g", NS)
    assert (type(new), type(old)) == (PodGroup, OldPodGroup)
    assert new.metadata.uid == old.metadata.uid
    status = {"status": {"conditions": [_condition("PodGroupInitiallyScheduled")]}}
    cluster.client.patch(OldPodGroup, "g", status, NS, subresource="status")
    assert cluster.client.get(PodGroup, "g", NS).status.conditions[0].type == "PodGroupInitiallyScheduled"
    (record,) = cluster.server.registry.store.range("/registry/podgroups/").records
    assert b'"apiVersion":"scheduling.k8s.io/v1beta1"' in record.value


def _condition(kind: str) -> dict[str, str]:
    times = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"type": kind, "status": "True", "reason": "R", "message": "", **times}


def test_enabled_versions_support_protobuf() -> None:
    plain = {**group(), "status": {"conditions": [_condition("X")]}}
    envelope = open_envelope(encode_object(plain))
    read = decode_object(envelope.api_version, envelope.kind, envelope.raw)
    assert read["spec"] == plain["spec"]
    assert read["status"] == plain["status"]


def test_deprecated_versions_warn() -> None:
    told = {
        one.group_version: one.deprecation
        for one in OPTIONAL_RESOURCES
        if one.plural in ("resourceslices", "podgroups")
    }
    assert told["resource.k8s.io/v1beta2"] == (
        "resource.k8s.io/v1beta2 ResourceSlice is deprecated in v1.36+, unavailable in v1.39+"
    )
    assert told["scheduling.k8s.io/v1beta1"] == ""


def test_fields_of_enabled_features_are_kept(make_cluster: Make, cluster: Cluster) -> None:
    member = pod(schedulingGroup={"podGroupName": "g"})
    on = make_cluster(**ALL)
    for _ in range(2):  # each server by its own features
        assert on.client.create(member).spec.scheduling_group.pod_group_name == "g"
        assert cluster.client.create(member).spec.scheduling_group is None
        for one in (on, cluster):
            one.client.delete("pods", "p", NS, grace_seconds=0)


def test_constraints_are_kept_or_dropped_by_their_feature(make_cluster: Make) -> None:
    constraints = {"topology": [{"key": "zone"}]}
    made = make_cluster(**ALL).client.create(group(schedulingConstraints=constraints))
    assert made.spec.scheduling_constraints.topology[0].key == "zone"
    without = make_cluster(**{**ALL, "feature_gates": "GenericWorkload=true"})
    assert without.client.create(group(schedulingConstraints=constraints)).spec.scheduling_constraints is None


def test_a_group_gets_the_priority_of_its_class(make_cluster: Make) -> None:
    cluster = make_cluster(**ALL)
    cluster.client.create(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    )
    assert cluster.client.create(group(priorityClassName="high")).spec.priority == 7
    assert cluster.client.create(group(name="h")).spec.priority == 0
    told = r"priority set in the pod group \(3\) must match the priority computed \(7\)"
    with pytest.raises(Forbidden, match=told):
        cluster.client.create(group(name="i", priorityClassName="high", priority=3))
    with pytest.raises(Forbidden, match="no PriorityClass with name low was found"):
        cluster.client.create(group(name="i", priorityClassName="low"))


def test_disabled_resources_are_not_found(make_cluster: Make) -> None:
    cluster = make_cluster(runtime_config="batch/v1/cronjobs=false")
    assert [one["name"] for one in document(cluster, "/apis/batch/v1")["resources"]] == ["jobs", "jobs/status"]
    with pytest.raises(ApiError) as refused:
        cluster.client.list("cronjobs.batch/v1", NS)
    assert refused.value.code == 404


def test_roles_follow_feature_gates(make_cluster: Make, cluster: Cluster) -> None:
    on = make_cluster(**ALL)
    name = "system:controller:podgroup-protection-controller"
    assert on.client.get("clusterrolebindings", name).subjects[0].name == "podgroup-protection-controller"
    with pytest.raises(NotFound):
        cluster.client.get("clusterroles", name)
    rules = [(one.api_groups, one.resources) for one in on.client.get("clusterroles", "system:aggregate-to-edit").rules]
    assert (("scheduling.k8s.io",), ("podgroups", "workloads")) in rules
    assert (("scheduling.k8s.io",), ("compositepodgroups",)) in rules


def test_invalid_groups_are_rejected_in_every_version(make_cluster: Make) -> None:
    cluster = make_cluster(**ALL)
    for version in ("v1beta1", "v1alpha3"):
        with pytest.raises(Invalid, match="must specify one of: `basic`, `gang`"):
            cluster.client.create(group(version, schedulingPolicy={}))


EVICTIONS: Any = {"runtime_config": "lifecycle.k8s.io/v1alpha1=true", "feature_gates": "EvictionRequestAPI=true"}
TARGET = {"pod": {"name": "p", "uid": "0b31b5ef-9d8b-4b3a-93b9-8ea1c8a7f2f6"}}


def eviction(kind: str, **spec: Any) -> dict[str, Any]:
    meta = {"name": "e", "namespace": NS}
    return {
        "apiVersion": "lifecycle.k8s.io/v1alpha1",
        "kind": kind,
        "metadata": meta,
        "spec": {"target": TARGET, **spec},
        "status": {"observedGeneration": 7},
    }


def test_eviction_requests_are_served_with_their_feature(make_cluster: Make) -> None:
    cluster = make_cluster(**EVICTIONS)
    made = cluster.client.create(eviction("EvictionRequest", requester="a.example.com/b", intent="Eviction"))
    assert (made.metadata.generation, made.status.observed_generation) == (1, None)
    resource = "evictionrequests.lifecycle.k8s.io"
    withdrawn = {"spec": {"intent": "Withdrawn"}, "status": {"observedGeneration": 7}}
    assert cluster.client.patch(resource, "e", withdrawn, NS).metadata.generation == 2
    seen = cluster.client.patch(resource, "e", {"status": {"observedGeneration": 1}}, NS, subresource="status")
    assert (seen.spec.intent, seen.status.observed_generation) == ("Withdrawn", 1)
    with pytest.raises(Invalid, match="may not be decreased from 1"):
        cluster.client.patch(resource, "e", {"status": {"observedGeneration": 0}}, NS, subresource="status")
    service = cluster.client.get("apiservices", "v1alpha1.lifecycle.k8s.io")
    assert (service.spec.group_priority_minimum, service.spec.version_priority) == (15700, 1)


def test_the_status_of_an_eviction_is_compared_with_the_current_time(make_cluster: Make) -> None:
    cluster = make_cluster(**EVICTIONS)
    cluster.client.create(eviction("Eviction"))
    name = "save.example.com/state"
    status: Any = {
        "targetResponders": [{"name": name, "priority": 5000, "state": "Active"}],
        "responders": [{"name": name, "startTime": "2001-01-01T00:00:00Z"}],
    }
    with pytest.raises(Invalid, match=r"responders\[0\].startTime: .* must be set to the present time"):
        cluster.client.patch("evictions.lifecycle.k8s.io", "e", {"status": status}, NS, subresource="status")


def test_eviction_requests_are_not_served_without_their_feature(make_cluster: Make) -> None:
    cluster = make_cluster(runtime_config="lifecycle.k8s.io/v1alpha1=true")
    with pytest.raises(NotFound):
        document(cluster, "/apis/lifecycle.k8s.io/v1alpha1")


def test_views_may_read_evictions_and_editors_may_request_them(make_cluster: Make) -> None:
    cluster = make_cluster(**EVICTIONS)
    for role, verbs in (("view", {"get", "list", "watch"}), ("edit", {"create", "delete", "patch", "update"})):
        rules = cluster.client.get("clusterroles", f"system:aggregate-to-{role}").rules
        (found,) = [one for one in rules if "lifecycle.k8s.io" in one.api_groups]
        assert verbs <= set(found.verbs)
        assert set(found.resources) == ({"evictionrequests", "evictions"} if role == "view" else {"evictionrequests"})
