# SPDX-License-Identifier: Apache-2.0
"""Tests of the create and update strategies of single resources."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api import codec, kinds
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.strategy import strategy_of
from kubeloop.api.strategy.equality import is_semantically_equal
from kubeloop.api.strategy.services import normalize_cluster_ips, patch_allocated_values

RESOURCES = {resource.plural: resource for resource in kinds.RESOURCES}
NOW, LATER = "2026-01-31T09:30:00Z", "2026-02-01T00:00:00Z"


def decoded(plural: str, manifest: Any) -> Any:
    obj = codec.from_plain(manifest, RESOURCES[plural].type)
    apply_defaults(obj)
    return obj


def created(plural: str, manifest: Any, now: str = NOW) -> Any:
    obj, strategy = decoded(plural, manifest), strategy_of(RESOURCES[plural])
    strategy.prepare_create(obj, DEFAULT_FEATURES)
    if strategy.set_timestamps is not None:
        strategy.set_timestamps(obj, None, now)
    return obj


def updated(plural: str, old: Any, manifest: Any, subresource: str = "", now: str = LATER) -> Any:
    new, strategy = decoded(plural, manifest), strategy_of(RESOURCES[plural])
    if subresource == "status":
        strategy.prepare_status_update(new, old, DEFAULT_FEATURES)
    elif subresource:
        strategy.subresource_updates[subresource](new, old, DEFAULT_FEATURES)
    else:
        strategy.prepare_update(new, old, DEFAULT_FEATURES)
    if strategy.set_timestamps is not None:
        strategy.set_timestamps(new, old, now)
    return new


def test_a_job_selects_its_own_pods() -> None:
    job = created(
        "jobs", {"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}
    )
    generated = {
        "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": "u",
        "job-name": "j",
    }
    assert job.spec.selector.match_labels == {"batch.kubernetes.io/controller-uid": "u"}
    assert job.spec.template.metadata.labels == {"a": "b", **generated}
    assert job.metadata.labels == {"a": "b", **generated}


@pytest.mark.parametrize("plural", ["jobs", "replicationcontrollers"])
def test_a_status_update_does_not_lose_labels_taken_from_the_template(plural: str) -> None:
    old = created(plural, {"metadata": {"name": "x"}, "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}})
    new = updated(plural, old, {"metadata": {"name": "x"}}, "status")
    assert new.metadata.labels == old.spec.template.metadata.labels != {}


def test_a_job_with_labels_of_its_own_keeps_only_those() -> None:
    job = created("jobs", {"metadata": {"name": "j", "uid": "u", "labels": {"x": "y"}}})
    assert job.metadata.labels == {"x": "y"}


def test_job_with_a_manual_selector_is_unchanged() -> None:
    spec = {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}}
    job = created("jobs", {"metadata": {"name": "j", "uid": "u"}, "spec": spec})
    assert job.spec.selector.match_labels == {"a": "b"}
    assert job.spec.template.metadata.labels == {}


def test_deployment_annotation_changes_increase_the_generation() -> None:
    old = created("deployments", {"metadata": {"name": "d"}})
    new = updated("deployments", old, {"metadata": {"name": "d", "annotations": {"a": "b"}}})
    assert new.metadata.generation == 2


def test_deployment_status_update_keeps_labels() -> None:
    old = created("deployments", {"metadata": {"name": "d", "labels": {"a": "b"}}})
    new = updated("deployments", old, {"metadata": {"name": "d"}, "status": {"replicas": 3}}, "status")
    assert (new.metadata.labels, new.status.replicas) == ({"a": "b"}, 3)


def test_daemon_set_template_changes_increase_the_template_generation() -> None:
    key = "deprecated.daemonset.template.generation"
    old = created("daemonsets", {"metadata": {"name": "d"}})
    same = updated("daemonsets", old, {"metadata": {"name": "d"}, "spec": {"minReadySeconds": 5}})
    changed = updated("daemonsets", old, {"metadata": {"name": "d"}, "spec": {"template": {"spec": {"nodeName": "n"}}}})
    assert [each.metadata.annotations[key] for each in (old, same, changed)] == ["1", "1", "2"]
    assert [each.metadata.generation for each in (old, same, changed)] == [1, 2, 2]


def test_namespace_is_active_with_the_kubernetes_finalizer() -> None:
    namespace = created("namespaces", {"metadata": {"name": "n"}, "spec": {"finalizers": ["mine"]}})
    assert namespace.spec.finalizers == ("mine", "kubernetes")
    assert namespace.status.phase == "Active"


def test_only_finalize_changes_finalizers() -> None:
    old = created("namespaces", {"metadata": {"name": "n"}})
    manifest = {"metadata": {"name": "n"}, "spec": {"finalizers": []}, "status": {"phase": "Terminating"}}
    assert updated("namespaces", old, manifest).spec.finalizers == ("kubernetes",)
    finalized = updated("namespaces", old, manifest, "finalize")
    assert (finalized.spec.finalizers, finalized.status.phase) == ((), "Active")


def test_a_node_registers_with_its_status() -> None:
    node = created("nodes", {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"}}})
    assert node.status.allocatable == {"cpu": "1"}
    assert updated("nodes", node, {"metadata": {"name": "n"}}).status is node.status


def test_a_service_account_refers_to_secrets_by_name() -> None:
    account = created("serviceaccounts", {"secrets": [{"name": "s", "namespace": "other", "uid": "1"}]})
    assert codec.to_plain(account)["secrets"] == [{"name": "s"}]


def test_lease_without_feature_gate_has_no_coordinated_election() -> None:
    lease = created("leases", {"spec": {"strategy": "Oldest", "preferredHolder": "x", "holderIdentity": "y"}})
    assert codec.to_plain(lease)["spec"] == {"holderIdentity": "y"}


def test_volume_has_its_last_phase_transition_time() -> None:
    old = created("persistentvolumes", {"status": {"phase": "Bound"}})
    assert (old.status.phase, old.status.last_phase_transition_time) == ("Pending", NOW)
    same = updated("persistentvolumes", old, {"status": {"phase": "Pending"}}, "status")
    other = updated("persistentvolumes", old, {"status": {"phase": "Bound"}}, "status")
    told = updated(
        "persistentvolumes",
        old,
        {"status": {"phase": "Bound", "lastPhaseTransitionTime": "2020-01-01T00:00:00Z"}},
        "status",
    )
    assert same.status.last_phase_transition_time == NOW
    assert other.status.last_phase_transition_time == LATER
    assert told.status.last_phase_transition_time == "2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("spec", "source", "ref"),
    [
        (
            {"dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}},
            {"kind": "PersistentVolumeClaim", "name": "a", "apiGroup": None},
            {"kind": "PersistentVolumeClaim", "name": "a", "apiGroup": None},
        ),
        ({"dataSource": {"kind": "Other", "name": "a", "apiGroup": "x.y"}}, None, None),
        (
            {"dataSourceRef": {"kind": "Other", "name": "a", "apiGroup": "x.y"}},
            {"kind": "Other", "name": "a", "apiGroup": "x.y"},
            {"kind": "Other", "name": "a", "apiGroup": "x.y"},
        ),
        ({"dataSourceRef": {"kind": "Other", "name": "a", "apiGroup": "x.y", "namespace": "n"}}, None, None),
    ],
)
def test_both_data_sources_of_a_claim_agree(spec: Any, source: Any, ref: Any) -> None:
    claim = codec.to_plain(created("persistentvolumeclaims", {"spec": spec}))["spec"]
    assert (claim.get("dataSource"), claim.get("dataSourceRef")) == (source, ref)


def service(**spec: Any) -> Any:
    return {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}}


def test_service_changed_to_external_name_releases_its_addresses() -> None:
    addresses = {
        "clusterIP": "10.0.0.1",
        "clusterIPs": ["10.0.0.1"],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
    }
    old = created("services", service(**addresses))
    spec = codec.to_plain(updated("services", old, service(type="ExternalName", externalName="x", **addresses)))["spec"]
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & spec.keys()


def test_service_without_node_ports_releases_them_unless_requested() -> None:
    old = created("services", service(type="NodePort", ports=[{"port": 80, "nodePort": 30000}]))
    same = updated("services", old, service(ports=[{"port": 80, "nodePort": 30000}]))
    other = updated("services", old, service(ports=[{"port": 80, "nodePort": 30001}]))
    assert (same.spec.ports[0].node_port, other.spec.ports[0].node_port) == (0, 30001)
    assert same.spec.external_traffic_policy == ""


def test_service_without_load_balancer_has_no_load_balancer_status() -> None:
    old = created("services", service(type="LoadBalancer"))
    old = updated("services", old, {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}, "status")
    new = updated("services", old, service(allocateLoadBalancerNodePorts=True))
    assert codec.to_plain(new)["status"] == {"loadBalancer": {}}
    assert new.spec.allocate_load_balancer_node_ports is None
    assert old.status.load_balancer.ingress


def test_reapplied_manifest_keeps_allocated_values() -> None:
    old = decoded(
        "services",
        service(
            type="NodePort", clusterIP="10.0.0.1", clusterIPs=["10.0.0.1"], ports=[{"port": 80, "nodePort": 30000}]
        ),
    )
    new = decoded("services", service(type="NodePort"))
    normalize_cluster_ips(new, old)
    patch_allocated_values(new, old)
    assert (new.spec.cluster_ip, new.spec.cluster_ips, new.spec.ports[0].node_port) == (
        "10.0.0.1",
        ("10.0.0.1",),
        30000,
    )


def test_cluster_ip_sets_cluster_ips() -> None:
    new = decoded("services", service(clusterIP="None"))
    normalize_cluster_ips(new, None)
    assert new.spec.cluster_ips == ("None",)


def test_endpoint_slice_labels_increase_the_generation_and_topology_is_dropped() -> None:
    manifest = {"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"], "deprecatedTopology": {"a": "b"}}]}
    old = created("endpointslices", manifest)
    assert old.endpoints[0].deprecated_topology == {}
    assert updated("endpointslices", old, codec.to_plain(old)).metadata.generation == 1
    assert (
        updated("endpointslices", old, {**codec.to_plain(old), "metadata": {"labels": {"a": "b"}}}).metadata.generation
        == 2
    )


def test_csr_identity_of_the_request_is_dropped() -> None:
    csr = created("certificatesigningrequests", {"spec": {"username": "root", "groups": ["g"], "signerName": "a.b/c"}})
    assert codec.to_plain(csr)["spec"] == {"request": "", "signerName": "a.b/c"}


def test_approval_changes_conditions_only() -> None:
    old = created("certificatesigningrequests", {"spec": {"signerName": "a.b/c"}})
    manifest = {"spec": {}, "status": {"certificate": "AAAA", "conditions": [{"type": "Approved", "status": "True"}]}}
    approved = updated("certificatesigningrequests", old, manifest, "approval")
    assert approved.spec.signer_name == "a.b/c"
    assert approved.status.certificate == b""
    assert approved.status.conditions[0].last_update_time == LATER
    issued = updated("certificatesigningrequests", approved, {"status": {**manifest["status"]}}, "status")
    assert issued.status.certificate
    assert issued.status.conditions == approved.status.conditions


def test_definition_keeps_every_stored_version() -> None:
    def versions(*names: str) -> Any:
        return {"spec": {"versions": [{"name": name, "storage": name == names[-1]} for name in names]}}

    old = created("customresourcedefinitions", versions("v1"))
    new = updated("customresourcedefinitions", old, versions("v1", "v2"))
    assert (old.status.stored_versions, new.status.stored_versions) == (("v1",), ("v1", "v2"))


def test_local_api_service_is_available_immediately() -> None:
    condition = codec.to_plain(created("apiservices", {}))["status"]["conditions"][0]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Available", "True", "Local")
    assert condition["lastTransitionTime"] == NOW


def test_device_taint_time_changes_with_its_effect() -> None:
    old = created("devicetaintrules", {"spec": {"taint": {"key": "k", "effect": "NoSchedule"}}})
    assert old.spec.taint.time_added == NOW
    manifest = codec.to_plain(old)
    manifest["spec"]["taint"]["effect"] = "NoExecute"
    new = updated("devicetaintrules", old, manifest)
    assert (new.spec.taint.time_added, new.metadata.generation) == (LATER, 2)


def test_device_status_is_removed_with_its_allocation() -> None:
    device = {"driver": "d", "pool": "p", "device": "x"}
    result = {**device, "request": "r"}
    old = decoded("resourceclaims", {"status": {"allocation": {"devices": {"results": [result]}}, "devices": [device]}})
    new = updated("resourceclaims", old, {"status": {"devices": [device]}}, "status")
    assert new.status.devices == ()


def test_flow_schema_status_update_keeps_metadata() -> None:
    old = created("flowschemas", {"metadata": {"name": "f", "labels": {"a": "b"}}})
    new = updated("flowschemas", old, {"metadata": {"name": "f", "annotations": {"x": "y"}}}, "status")
    assert (new.metadata.labels, new.metadata.annotations) == ({"a": "b"}, {})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"limits": {"cpu": "1Ki"}}, {"limits": {"cpu": "1024"}}, True),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "2"}}, False),
        ({"limits": {}}, {}, True),
        ({"limits": {"cpu": "1"}}, {"requests": {"cpu": "1"}}, False),
    ],
)
def test_equal_quantities_in_other_forms_are_no_change(one: Any, other: Any, same: bool) -> None:
    first, second = (decoded("persistentvolumeclaims", {"spec": {"resources": each}}) for each in (one, other))
    assert is_semantically_equal(first.spec, second.spec) is same
