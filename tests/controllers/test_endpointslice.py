# SPDX-License-Identifier: Apache-2.0
"""Services have slices that list their pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kubeloop.api.generated.core_v1 import Node, Pod, Service
from kubeloop.api.generated.discovery_v1 import EndpointPort, EndpointSlice
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.controllers.endpointslice import wire
from kubeloop.controllers.shared.endpoints.trigger_times import ANNOTATION
from kubeloop.runtime.manager import Loop
from kubeloop.testing import Cluster
from tests.controllers.replicas import as_account
from tests.controllers.services import (
    MANAGED_BY,
    NS,
    SERVICE_NAME,
    ZONE,
    add_node,
    add_pod,
    change_service,
    endpoints_in,
    only_slice,
    service,
    set_pod,
    slices,
    start,
    states,
)

MANAGER = "endpointslice-controller.k8s.io"
HEADLESS = "service.kubernetes.io/headless"


def ready_cluster(cluster: Cluster, **spec: Any) -> Loop:
    """A node, the loop, and a service without pods."""
    add_node(cluster, zone="a")
    loop = cluster.start(wire)
    cluster.add(service(**spec))
    cluster.settle()
    return loop


def test_service_without_pods_has_one_placeholder_slice(cluster: Cluster) -> None:
    ready_cluster(cluster)
    found, owner = only_slice(cluster), cluster.client.get(Service, "s", NS)
    assert (found.address_type, found.endpoints, found.ports) == ("IPv4", None, None)
    assert found.metadata.generate_name == "s-"
    assert found.metadata.labels == {SERVICE_NAME: "s", MANAGED_BY: MANAGER}
    (reference,) = found.metadata.owner_references
    assert (reference.kind, reference.api_version, reference.name) == ("Service", "v1", "s")
    assert (reference.uid, reference.controller, reference.block_owner_deletion) == (owner.metadata.uid, True, True)


def test_endpoint_has_all_details_of_the_pod(cluster: Cluster) -> None:
    ready_cluster(cluster)
    made = add_pod(cluster, "p", "10.1.0.1", hostname="h", subdomain="s")
    (endpoint,) = only_slice(cluster).endpoints or ()
    assert endpoint.addresses == ("10.1.0.1",)
    assert states(endpoint) == (True, True, False)
    assert (endpoint.node_name, endpoint.zone, endpoint.hostname) == ("n", "a", "h")
    target = endpoint.target_ref
    assert target is not None
    assert (target.kind, target.namespace, target.name, target.uid) == ("Pod", NS, "p", made.metadata.uid)
    assert only_slice(cluster).ports == (EndpointPort(name="", port=80, protocol="TCP"),)


def test_first_pod_replaces_the_placeholder_slice(cluster: Cluster) -> None:
    ready_cluster(cluster)
    before = only_slice(cluster)
    add_pod(cluster, "p", "10.1.0.1")
    assert only_slice(cluster).metadata.uid == before.metadata.uid


def test_pod_of_another_subdomain_has_no_hostname(cluster: Cluster) -> None:
    ready_cluster(cluster)
    add_pod(cluster, "p", "10.1.0.1", hostname="h", subdomain="other")
    assert endpoints_in(only_slice(cluster))["p"].hostname is None


def test_pod_conditions_are_tracked_until_termination(cluster: Cluster) -> None:
    ready_cluster(cluster)

    def now() -> object:
        found = endpoints_in(only_slice(cluster))
        return states(found["p"]) if found else None

    add_pod(cluster, "p")
    assert now() is None
    set_pod(cluster, "p", ("10.1.0.1",), ready=False)
    assert now() == (False, False, False)
    set_pod(cluster, "p", ready=True)
    assert now() == (True, True, False)
    cluster.client.delete(Pod, "p", NS)
    cluster.settle()
    assert now() == (False, True, True)
    set_pod(cluster, "p", ready=False)
    assert now() == (False, False, True)
    cluster.client.delete(Pod, "p", NS, grace_seconds=0)
    cluster.settle()
    assert now() is None


def test_terminated_pod_is_not_listed_even_if_never_ready(cluster: Cluster) -> None:
    ready_cluster(cluster)
    add_pod(cluster, "p", "10.1.0.1", ready=False)
    assert endpoints_in(only_slice(cluster))
    set_pod(cluster, "p", phase="Failed")
    assert endpoints_in(only_slice(cluster)) == {}


def test_publish_not_ready_addresses_marks_all_ready(cluster: Cluster) -> None:
    ready_cluster(cluster, publishNotReadyAddresses=True)
    add_pod(cluster, "p", "10.1.0.1", ready=False)
    assert states(endpoints_in(only_slice(cluster))["p"]) == (True, False, False)
    cluster.client.delete(Pod, "p", NS)
    cluster.settle()
    assert states(endpoints_in(only_slice(cluster))["p"]) == (True, False, True)


def test_pods_with_different_named_ports_are_in_separate_slices(cluster: Cluster) -> None:
    ready_cluster(cluster, ports=[{"name": "http", "port": 80, "targetPort": "web", "appProtocol": "example.com/x"}])
    for name, number in (("p", 8080), ("q", 9090)):
        port = {"name": "web", "containerPort": number}
        made = cluster.client.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": NS, "labels": {"app": "s"}},
                "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "ports": [port]}]},
            }
        )
        set_pod(cluster, made.metadata.name, (f"10.1.0.{number // 1000}",), ready=True)
    add_pod(cluster, "without", "10.1.0.7")
    by_port = {
        tuple((port.name, port.port, port.app_protocol) for port in one.ports or ()): set(endpoints_in(one))
        for one in slices(cluster)
    }
    assert by_port == {
        (("http", 8080, "example.com/x"),): {"p"},
        (("http", 9090, "example.com/x"),): {"q"},
        (): {"without"},
    }


def test_ports_are_listed_in_upstreams_order(cluster: Cluster) -> None:
    udp = {"name": "udp", "protocol": "UDP", "port": 53, "targetPort": 5353, "appProtocol": "example.com/x"}
    ready_cluster(cluster, ports=[udp, {"name": "http", "port": 80, "targetPort": 8080}])
    add_pod(cluster, "p", "10.1.0.1")
    assert [port.name for port in only_slice(cluster).ports or ()] == ["http", "udp"]


def test_headless_service_needs_no_ports_and_is_labelled_so(cluster: Cluster) -> None:
    ready_cluster(cluster, clusterIP="None", ports=None)
    add_pod(cluster, "p", "10.1.0.1")
    found = only_slice(cluster)
    assert found.ports is None
    assert found.metadata.labels[HEADLESS] == ""
    assert set(endpoints_in(found)) == {"p"}


def test_service_labels_are_copied_to_slices_except_reserved_ones(cluster: Cluster) -> None:
    ready_cluster(cluster)
    add_pod(cluster, "p", "10.1.0.1")
    change_service(cluster, {"metadata": {"labels": {"l": "v", SERVICE_NAME: "x", MANAGED_BY: "y", HEADLESS: ""}}})
    assert only_slice(cluster).metadata.labels == {"l": "v", SERVICE_NAME: "s", MANAGED_BY: MANAGER}
    change_service(cluster, {"metadata": {"labels": {"l": None, "m": "w"}}})
    assert only_slice(cluster).metadata.labels == {"m": "w", SERVICE_NAME: "s", MANAGED_BY: MANAGER}


def test_reserved_labels_alone_cause_no_write(cluster: Cluster) -> None:
    ready_cluster(cluster)
    add_pod(cluster, "p", "10.1.0.1")
    before = only_slice(cluster).metadata.resource_version
    change_service(cluster, {"metadata": {"labels": {HEADLESS: "x"}}})
    assert only_slice(cluster).metadata.resource_version == before


def test_slices_have_the_last_change_trigger_time(cluster: Cluster) -> None:
    ready_cluster(cluster)
    made = cluster.client.get(Service, "s", NS).metadata.creation_timestamp
    assert only_slice(cluster).metadata.annotations == {ANNOTATION: made}
    cluster.advance(100)
    changed = add_pod(cluster, "p", "10.1.0.1")
    assert only_slice(cluster).metadata.annotations == {
        ANNOTATION: changed.status.conditions[0].last_transition_time
    }  # fmt: skip
    cluster.client.delete(Pod, "p", NS, grace_seconds=0)
    cluster.settle()
    assert only_slice(cluster).metadata.annotations == {}


def test_selector_can_be_changed_added_and_removed(cluster: Cluster) -> None:
    ready_cluster(cluster, selector=None)
    add_pod(cluster, "p", "10.1.0.1")
    add_pod(cluster, "q", "10.1.0.2", labels={"app": "other", "tier": "x"})
    assert slices(cluster) == []
    change_service(cluster, {"spec": {"selector": {"app": "s"}}})
    assert set(endpoints_in(only_slice(cluster))) == {"p"}
    change_service(cluster, {"spec": {"selector": {"app": "other", "tier": "x"}}})
    assert set(endpoints_in(only_slice(cluster))) == {"q"}
    change_service(cluster, {"spec": {"selector": None}})
    assert set(endpoints_in(only_slice(cluster))) == {"q"}  # left as it is


def test_pod_joins_and_leaves_by_its_labels(cluster: Cluster) -> None:
    ready_cluster(cluster)
    cluster.add(service("t", selector={"app": "t"}))
    add_pod(cluster, "p", "10.1.0.1")
    cluster.client.patch(Pod, "p", {"metadata": {"labels": {"app": "t"}}}, NS)
    cluster.settle()
    assert endpoints_in(only_slice(cluster, "s")) == {}
    assert set(endpoints_in(only_slice(cluster, "t"))) == {"p"}


def test_external_name_has_no_slices(cluster: Cluster) -> None:
    ready_cluster(cluster, type="ExternalName", externalName="example.com", ports=None)
    add_pod(cluster, "p", "10.1.0.1")
    assert slices(cluster) == []


def test_pod_on_an_unknown_node_waits_for_the_node(cluster: Cluster) -> None:
    ready_cluster(cluster)
    add_pod(cluster, "p", "10.1.0.1")
    add_pod(cluster, "q", "10.1.0.2", on="m")
    assert set(endpoints_in(only_slice(cluster))) == {"p"}
    (event,) = cluster.events(reason="FailedToUpdateEndpointSlices")
    assert event.message == (
        "Error updating Endpoint Slices for Service default/s: "
        "skipping Pod q for Service default/s: Node m Not Found"
    )  # fmt: skip
    assert (event.type, event.source.component) == ("Warning", "endpoint-slice-controller")
    add_node(cluster, "m", zone="b")
    cluster.settle()
    assert endpoints_in(only_slice(cluster))["q"].zone == "b"


def test_publish_not_ready_addresses_does_not_wait_for_nodes(cluster: Cluster) -> None:
    ready_cluster(cluster, publishNotReadyAddresses=True)
    add_pod(cluster, "q", "10.1.0.2", on="m")
    assert endpoints_in(only_slice(cluster))["q"].zone is None


def test_zone_added_to_a_node_reaches_its_endpoints(cluster: Cluster) -> None:
    ready_cluster(cluster)
    add_pod(cluster, "p", "10.1.0.1")
    cluster.client.patch(Node, "n", {"metadata": {"labels": {ZONE: "z"}}})
    cluster.settle()
    assert endpoints_in(only_slice(cluster))["p"].zone == "z"


def test_named_ports_are_found_in_sidecars_and_not_in_other_init_containers(cluster: Cluster) -> None:
    ready_cluster(cluster, ports=[{"port": 80, "targetPort": "web"}])
    for name, policy in (("sidecar", "Always"), ("init", None)):
        first = {"name": "i", "image": "i", "ports": [{"name": "web", "containerPort": 8080}]}
        init = {**first, "restartPolicy": policy} if policy else first
        spec = {"nodeName": "n", "initContainers": [init], "containers": [{"name": "c", "image": "i"}]}
        about = {"name": name, "namespace": NS, "labels": {"app": "s"}}
        cluster.add({"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec})
        set_pod(cluster, name, (f"10.1.0.{len(name)}",), ready=True)
    by_ports = {len(one.ports or ()): set(endpoints_in(one)) for one in slices(cluster)}
    assert by_ports == {1: {"sidecar"}, 0: {"init"}}


# Changes to slices by others.


def test_deleted_slice_is_recreated_after_a_second(cluster: Cluster) -> None:
    ready_cluster(cluster)
    add_pod(cluster, "p", "10.1.0.1")
    cluster.client.delete(EndpointSlice, only_slice(cluster).metadata.name, NS)
    cluster.advance(0.9)
    assert slices(cluster) == []
    cluster.advance(0.2)
    assert set(endpoints_in(only_slice(cluster))) == {"p"}


def test_slice_deleted_before_the_start_is_recreated(cluster: Cluster) -> None:
    loop = ready_cluster(cluster)
    add_pod(cluster, "p", "10.1.0.1")
    cluster.stop(loop)
    cluster.start(wire)
    cluster.advance(5)
    cluster.client.delete(EndpointSlice, only_slice(cluster).metadata.name, NS)
    cluster.advance(2)
    assert set(endpoints_in(only_slice(cluster))) == {"p"}


def test_modified_slice_is_restored(cluster: Cluster) -> None:
    ready_cluster(cluster)
    add_pod(cluster, "p", "10.1.0.1")
    name = only_slice(cluster).metadata.name
    wrong = {"endpoints": [{"addresses": ["10.9.9.9"], "conditions": {"ready": True}}]}
    cluster.client.patch(EndpointSlice, name, wrong, NS)
    cluster.advance(1.5)
    assert set(endpoints_in(only_slice(cluster))) == {"p"}


def test_slices_of_other_managers_are_ignored(cluster: Cluster) -> None:
    ready_cluster(cluster)
    for manager in ({}, {MANAGED_BY: "somebody.example"}):
        about = {"generateName": "x-", "namespace": NS, "labels": {SERVICE_NAME: "s", **manager}}
        cluster.add({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": about,
                     "addressType": "IPv4", "endpoints": [{"addresses": ["10.9.9.9"]}], "ports": []})  # fmt: skip
    add_pod(cluster, "p", "10.1.0.1")
    cluster.advance(5)
    assert len(slices(cluster)) == 3


def test_slice_of_a_former_service_with_the_same_name_is_not_reused(cluster: Cluster) -> None:
    ready_cluster(cluster)
    add_pod(cluster, "p", "10.1.0.1")
    before = only_slice(cluster)
    cluster.client.delete(Service, "s", NS)
    cluster.add(service())
    cluster.settle()
    assert only_slice(cluster).metadata.uid != before.metadata.uid
    owner = cluster.client.get(Service, "s", NS)
    assert only_slice(cluster).metadata.owner_references[0].uid == owner.metadata.uid


def test_service_being_deleted_gets_no_new_slices(cluster: Cluster) -> None:
    ready_cluster(cluster)
    change_service(cluster, {"metadata": {"finalizers": ["test.example/kept"]}})
    cluster.client.delete(EndpointSlice, only_slice(cluster).metadata.name, NS)
    cluster.client.delete(Service, "s", NS)
    cluster.advance(5)
    assert slices(cluster) == []


# Families of addresses.


def test_dual_stack_pod_is_in_the_slice_of_the_services_family(cluster: Cluster) -> None:
    ready_cluster(cluster)
    add_pod(cluster, "p", "10.1.0.1", "fd00::0:1")
    (found,) = slices(cluster)
    assert (found.address_type, endpoints_in(found)["p"].addresses) == ("IPv4", ("10.1.0.1",))


def test_pod_without_an_address_of_the_family_is_skipped(cluster: Cluster) -> None:
    ready_cluster(cluster)
    add_pod(cluster, "p", "fd00::1")
    assert only_slice(cluster).endpoints is None


def test_dual_stack_headless_service_has_slices_per_family(cluster: Cluster) -> None:
    # A server with addresses of one family alone gives both to a headless service without a selector.
    both = {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"}
    ready_cluster(cluster, clusterIP="None", selector=None, **both)
    change_service(cluster, {"spec": {"selector": {"app": "s"}}})
    add_pod(cluster, "p", "10.1.0.1", "fd00::0:1")
    found = {one.address_type: endpoints_in(one)["p"].addresses for one in slices(cluster)}
    assert found == {"IPv4": ("10.1.0.1",), "IPv6": ("fd00::1",)}


# Few writes.


def test_max_endpoints_per_slice_is_enforced(cluster: Cluster) -> None:
    add_node(cluster)
    for number in range(7):
        add_pod(cluster, f"p{number}", f"10.1.0.{number + 1}")
    start(cluster, wire, max_endpoints_per_slice=3)
    cluster.add(service())
    cluster.settle()
    assert sorted(len(one.endpoints or ()) for one in slices(cluster)) == [1, 3, 3]
    assert len(endpoints_in(*slices(cluster))) == 7


def test_change_in_one_slice_leaves_the_others_unchanged(cluster: Cluster) -> None:
    add_node(cluster)
    for number in range(6):
        add_pod(cluster, f"p{number}", f"10.1.0.{number + 1}")
    start(cluster, wire, max_endpoints_per_slice=2)
    cluster.add(service())
    cluster.settle()
    before = {one.metadata.name: one.metadata.resource_version for one in slices(cluster)}
    set_pod(cluster, "p3", ready=False)
    after = {one.metadata.name: one.metadata.resource_version for one in slices(cluster)}
    assert before.keys() == after.keys()
    assert sum(before[name] != after[name] for name in before) == 1


def test_many_pods_becoming_ready_cause_few_writes(cluster: Cluster) -> None:
    add_node(cluster)
    cluster.start(wire)
    cluster.add(service())
    for number in range(300):
        add_pod(cluster, f"p{number}")
    for number in range(300):
        set_pod(cluster, f"p{number}", (f"10.1.{number // 200}.{number % 200 + 1}",), ready=True)
        cluster.advance(0.01)
    cluster.advance(2)
    found = slices(cluster)
    assert len(endpoints_in(*found)) == 300
    assert sum(one.metadata.generation for one in found) < 100
    assert all(len(one.endpoints or ()) <= 100 for one in found)


def test_batch_period_coalesces_pod_changes(cluster: Cluster) -> None:
    add_node(cluster)
    start(cluster, wire, endpointslice_updates_batch_period=5.0)
    cluster.add(service())
    cluster.settle()
    add_pod(cluster, "p", "10.1.0.1")
    cluster.advance(2)
    add_pod(cluster, "q", "10.1.0.2")
    assert endpoints_in(only_slice(cluster)) == {}
    cluster.advance(4)
    assert set(endpoints_in(only_slice(cluster))) == {"p", "q"}
    assert only_slice(cluster).metadata.generation == 2


def test_unchanged_service_is_not_written(cluster: Cluster) -> None:
    ready_cluster(cluster)
    add_pod(cluster, "p", "10.1.0.1")
    before = only_slice(cluster).metadata.resource_version
    cluster.advance(days=1)
    assert only_slice(cluster).metadata.resource_version == before


# Rights, and failures.


def test_controllers_role_is_sufficient(cluster: Cluster) -> None:
    add_node(cluster)
    cluster.start(wire(as_account(cluster, "endpointslice-controller")))
    cluster.add(service())
    cluster.settle()
    for number in range(3):
        add_pod(cluster, f"p{number}", f"10.1.0.{number + 1}")
    change_service(cluster, {"metadata": {"labels": {"l": "v"}}})
    assert set(endpoints_in(only_slice(cluster))) == {"p0", "p1", "p2"}
    assert only_slice(cluster).metadata.labels["l"] == "v"


def test_rejected_write_records_an_event_and_is_retried(cluster: Cluster) -> None:
    ready_cluster(cluster)
    cluster.faults.fail("patch", "endpointslices")
    add_pod(cluster, "p", "10.1.0.1")
    assert endpoints_in(only_slice(cluster)) == {}
    (event,) = cluster.events(reason="FailedToUpdateEndpointSlices")
    name = only_slice(cluster).metadata.name
    assert event.message == (
        f"Error updating Endpoint Slices for Service default/s: failed to update {name} EndpointSlice for Service "
        "default/s: the server is currently unable to handle the request"
    )
    cluster.advance(1.5)
    assert set(endpoints_in(only_slice(cluster))) == {"p"}


def test_terminating_namespace_gets_no_slices_and_no_events(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
    made = service()
    made["metadata"]["namespace"] = "x"
    cluster.client.create(made)
    cluster.settle()
    cluster.client.delete("namespaces", "x")
    (found,) = cluster.client.list(EndpointSlice, "x").items
    cluster.client.delete(EndpointSlice, found.metadata.name, "x")
    cluster.advance(5)
    assert list(cluster.client.list(EndpointSlice, "x").items or ()) == []
    assert cluster.events(reason="FailedToUpdateEndpointSlices") == []


# Telling.


def metrics(cluster: Cluster) -> dict[str, str]:
    lines = cluster.context.telemetry.registry.render().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if line.startswith("endpoint_slice_controller_"))


def test_metrics_count_endpoints_slices_and_changes(cluster: Cluster) -> None:
    add_node(cluster, zone="a")
    context = replace(cluster.context, config=ManagerConfig(max_endpoints_per_slice=2))
    cluster.start(wire(context))
    cluster.add(service(trafficDistribution="PreferClose"))
    for number in range(3):
        add_pod(cluster, f"p{number}", f"10.1.0.{number + 1}")
    found = metrics(cluster)
    assert found["endpoint_slice_controller_endpoints_desired"] == "3"
    assert found["endpoint_slice_controller_num_endpoint_slices"] == "2"
    assert found["endpoint_slice_controller_desired_endpoint_slices"] == "2"
    assert found['endpoint_slice_controller_changes{operation="create"}'] == "2"
    assert found['endpoint_slice_controller_changes{operation="update"}'] == "2"
    distribution = 'traffic_distribution="PreferClose"'
    assert found[f"endpoint_slice_controller_services_count_by_traffic_distribution{{{distribution}}}"] == "1"
    cluster.client.delete(Service, "s", NS)
    cluster.settle()
    found = metrics(cluster)
    assert found["endpoint_slice_controller_endpoints_desired"] == "0"
    assert found[f"endpoint_slice_controller_services_count_by_traffic_distribution{{{distribution}}}"] == "0"
