# SPDX-License-Identifier: Apache-2.0
"""Cluster addresses and the IPAddress objects beside them."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from kubeloop.api.apply.change import ManagedWrite
from kubeloop.api.apply.fields.field_owners import update_field_owners
from kubeloop.api.kinds import definition_of
from kubeloop.api.schema import node_of
from tests.unit.apiserver.registry.allocation.cluster import ADDRESSES, NETWORKS, SERVICES, assert_exact


def test_a_service_gets_an_address_from_the_upper_band(cluster):
    spec = cluster.create("web").spec
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert ip_address("10.0.0.17") <= ip_address(spec["clusterIP"]) <= ip_address("10.0.0.254")
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")


def test_address_is_recorded_as_an_ipaddress_object(cluster):
    address = cluster.create("web").spec["clusterIP"]
    recorded = cluster.ask("GET", f"{ADDRESSES}/{address}").body
    assert recorded["spec"] == {"parentRef": {"name": "web", "namespace": "shop", "resource": "services"}}
    assert recorded["metadata"]["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    assert recorded["metadata"]["uid"]
    assert recorded["metadata"]["creationTimestamp"] == "2026-05-10T12:00:00Z"


def test_managed_fields_of_the_record_are_the_servers(cluster):
    address = cluster.create("web").spec["clusterIP"]
    recorded = cluster.ask("GET", f"{ADDRESSES}/{address}").body
    (entry,) = recorded["metadata"].pop("managedFields")
    kind = "networking.k8s.io/v1"
    shape = node_of(definition_of(kind, "IPAddress"))
    now = "2026-05-10T12:00:00Z"
    write = ManagedWrite("IPAddress", kind, shape, "kube-apiserver", now)
    assert [entry] == update_field_owners(None, recorded, write, [])


def test_deleted_service_releases_its_address(cluster):
    address = cluster.create("web").spec["clusterIP"]
    cluster.delete("web")
    assert cluster.recorded() == {}
    assert cluster.create("next", clusterIP=address).spec["clusterIP"] == address


def test_service_with_a_finalizer_keeps_its_address_until_deleted(cluster):
    body = {"metadata": {"name": "web", "finalizers": ["a.example/b"]}, "spec": {"ports": [{"port": 80}]}}
    address = cluster.ask("POST", SERVICES, body).spec["clusterIP"]
    cluster.delete("web")
    assert cluster.recorded() == {address: "web"}
    cluster.ask("PATCH", f"{SERVICES}/web", {"metadata": {"finalizers": None}})
    assert cluster.recorded() == {}
    assert_exact(cluster)


def test_status_write_removing_the_last_finalizer_releases_the_address(cluster):
    body = {"metadata": {"name": "web", "finalizers": ["a.example/b"]}, "spec": {"ports": [{"port": 80}]}}
    cluster.ask("POST", SERVICES, body)
    cluster.delete("web")
    cluster.ask("PATCH", f"{SERVICES}/web/status", {"metadata": {"finalizers": None}})
    assert_exact(cluster)
    assert cluster.services() == {}


@pytest.mark.parametrize("lower", ["10.0.0.1", "10.0.0.16", "10.0.0.254"])
def test_address_can_be_requested(cluster, lower):
    assert cluster.create("web", clusterIP=lower).spec["clusterIPs"] == [lower]
    assert cluster.recorded() == {lower: "web"}


def test_used_address_is_rejected(cluster):
    cluster.create("web", clusterIP="10.0.0.9")
    refused = cluster.create("late", clusterIP="10.0.0.9")
    assert refused.refusal == (
        422,
        'Service "late" is invalid: spec.clusterIPs: Invalid value: ["10.0.0.9"]: '
        "failed to allocate IP 10.0.0.9: provided IP is already allocated",
    )
    assert_exact(cluster)


@pytest.mark.parametrize("outside", ["1.2.3.4", "10.0.0.0", "10.0.0.255", "10.0.1.1"])
def test_address_outside_the_networks_is_rejected(cluster, outside):
    refused = cluster.create("web", clusterIP=outside)
    assert refused.refusal == (
        422,
        f'Service "web" is invalid: spec.clusterIPs: Invalid value: ["{outside}"]: '
        f"failed to allocate IP {outside}: the provided network does not match the current range",
    )


def test_a_full_network_is_an_internal_error(make_cluster):
    cluster = make_cluster("10.0.0.0/30")
    assert {cluster.create(name).spec["clusterIP"] for name in "ab"} == {"10.0.0.1", "10.0.0.2"}
    status, message = cluster.create("c").refusal
    assert status == 500
    assert message == ('Internal error occurred: failed to allocate a serviceIP for Service "c": range is full')
    assert_exact(cluster)


def test_existing_service_allocates_nothing(cluster):
    cluster.create("web")
    assert cluster.create("web", type="NodePort").status == 409
    assert_exact(cluster)


def test_invalid_service_allocates_nothing(cluster):
    assert cluster.create("Not_A_Name", type="NodePort").status == 422
    assert cluster.recorded() == {}
    cluster.create("web")
    assert_exact(cluster)


def test_dry_run_shows_an_address_and_allocates_nothing(cluster):
    assert cluster.create("web", "?dryRun=All").spec["clusterIP"] == "10.0.0.0"
    assert cluster.create("web", "?dryRun=All", clusterIP="10.0.0.9").spec["clusterIP"] == "10.0.0.9"
    assert cluster.recorded() == {}


def test_dry_run_error_names_the_network(cluster):
    _, message = cluster.create("web", "?dryRun=All", clusterIP="1.2.3.4").refusal
    assert message.endswith(
        "the provided IP (1.2.3.4) is not in the valid range. The range of valid IPs is 10.0.0.0/24"
    )


def test_headless_and_external_services_have_no_address(cluster):
    assert cluster.create("headless", clusterIP="None").spec["clusterIPs"] == ["None"]
    assert "clusterIP" not in cluster.create("outside", type="ExternalName", externalName="a.example").spec
    assert cluster.recorded() == {}


def test_service_changed_to_external_name_releases_its_address_and_back(cluster):
    address = cluster.create("web", clusterIP="10.0.0.9").spec["clusterIP"]
    spec = cluster.patch("web", type="ExternalName", externalName="a.example").spec
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & set(spec)
    assert address not in cluster.recorded()
    back = cluster.patch("web", type="ClusterIP", externalName=None).spec
    assert cluster.recorded() == {back["clusterIP"]: "web"}
    assert_exact(cluster)


def test_reapplied_manifest_keeps_allocated_values(cluster):
    manifest = {"metadata": {"name": "web"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    first = cluster.ask("POST", SERVICES, manifest).spec
    assert cluster.ask("PUT", f"{SERVICES}/web", manifest).spec == first


def test_put_that_creates_allocates(cluster):
    manifest = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    made = cluster.ask("PUT", f"{SERVICES}/web", manifest)
    assert made.status == 201
    assert cluster.recorded() == {made.spec["clusterIP"]: "web"}


def test_generated_name_is_recorded(cluster):
    made = cluster.ask("POST", SERVICES, {"metadata": {"generateName": "web-"}, "spec": {"ports": [{"port": 80}]}})
    assert cluster.recorded() == {made.spec["clusterIP"]: made.body["metadata"]["name"]}


def test_address_with_a_deleted_record_stays_allocated(make_cluster):
    cluster = make_cluster("10.0.0.0/30")
    cluster.create("web", clusterIP="10.0.0.1")
    cluster.ask("DELETE", f"{ADDRESSES}/10.0.0.1")
    assert cluster.create("other").spec["clusterIP"] == "10.0.0.2"
    assert cluster.create("third").status == 500


def test_manually_recorded_address_is_not_allocated(make_cluster):
    cluster = make_cluster("10.0.0.0/30")
    parent = {"resource": "gateways", "group": "a.example", "name": "x"}
    cluster.ask("POST", ADDRESSES, {"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": parent}})
    assert cluster.create("web").spec["clusterIP"] == "10.0.0.2"
    assert "already allocated" in cluster.create("late", clusterIP="10.0.0.1").refusal[1]


def test_record_with_a_finalizer_is_marked_for_deletion(cluster):
    cluster.create("web", clusterIP="10.0.0.9")
    cluster.ask("PATCH", f"{ADDRESSES}/10.0.0.9", {"metadata": {"finalizers": ["a.example/b"]}})
    cluster.delete("web")
    left = cluster.ask("GET", f"{ADDRESSES}/10.0.0.9").body
    assert left["metadata"]["deletionTimestamp"] == "2026-05-10T12:00:00Z"
    assert cluster.create("next", clusterIP="10.0.0.9").status == 422


def test_record_of_another_owner_is_kept(cluster):
    cluster.create("web", clusterIP="10.0.0.9")
    cluster.ask("DELETE", f"{ADDRESSES}/10.0.0.9")
    parent = {"resource": "services", "namespace": "other", "name": "web"}
    cluster.ask("POST", ADDRESSES, {"metadata": {"name": "10.0.0.9"}, "spec": {"parentRef": parent}})
    cluster.delete("web")
    assert cluster.recorded() == {"10.0.0.9": "web"}


def _network(name, *cidrs, **more):
    return {"metadata": {"name": name, **more}, "spec": {"cidrs": list(cidrs)}}


def test_service_cidr_objects_replace_configured_networks(cluster):
    cluster.ask("POST", NETWORKS, _network("kubernetes", "10.9.0.0/24"))
    assert cluster.create("web").spec["clusterIP"].startswith("10.9.0.")
    assert cluster.create("old", clusterIP="10.0.0.9").status == 422


def test_additional_network_is_used_when_the_first_is_full(make_cluster):
    cluster = make_cluster()
    cluster.ask("POST", NETWORKS, _network("kubernetes", "10.0.0.0/30"))
    assert [cluster.create(name).status for name in "abc"] == [201, 201, 500]
    cluster.ask("POST", NETWORKS, _network("more", "10.7.0.0/30"))
    assert {cluster.create(name).spec["clusterIP"] for name in "cd"} == {"10.7.0.1", "10.7.0.2"}
    assert_exact(cluster)


def test_family_without_service_cidr_uses_its_configured_network(dual):
    dual.ask("POST", NETWORKS, _network("kubernetes", "10.9.0.0/24"))
    first, second = dual.create("web", ipFamilyPolicy="RequireDualStack").spec["clusterIPs"]
    assert first.startswith("10.9.0.")
    assert second.startswith("fd00:10::")


def test_network_not_ready_or_terminating_allocates_nothing(cluster):
    cluster.ask("POST", NETWORKS, _network("a", "10.8.0.0/24", finalizers=["a.example/b"]))
    refusal = [
        {"type": "Ready", "status": "False", "reason": "x", "message": "", "lastTransitionTime": "2026-05-10T12:00:00Z"}
    ]
    cluster.ask("PATCH", f"{NETWORKS}/a/status", {"status": {"conditions": refusal}})
    assert cluster.create("web").status == 500
    cluster.ask("PATCH", f"{NETWORKS}/a/status", {"status": {"conditions": [{**refusal[0], "status": "True"}]}})
    assert cluster.create("web").status == 201
    cluster.ask("DELETE", f"{NETWORKS}/a")
    assert cluster.create("late").status == 500


def test_a_service_without_a_name_gets_no_address(cluster):
    found = cluster.ask("POST", SERVICES, {"spec": {"ports": [{"port": 80}]}})
    assert found.status == 422
    (cause,) = found.body["details"]["causes"]
    assert cause["field"] == "spec.clusterIPs"
    assert cause["message"].endswith("is invalid: spec.parentRef.name: Required value")
    assert cluster.ask("POST", f"{SERVICES}?dryRun=All", {"spec": {"ports": [{"port": 80}]}}).body["details"][
        "causes"
    ] == [
        {
            "reason": "FieldValueRequired",
            "message": "Required value: name or generateName is required",
            "field": "metadata.name",
        }
    ]
