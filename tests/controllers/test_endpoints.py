# SPDX-License-Identifier: Apache-2.0
"""Services have Endpoints objects that list their pods."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Endpoints, Pod, Service
from kubeloop.controllers.endpoints import wire
from kubeloop.controllers.endpoints.reconciler import OVER_CAPACITY
from kubeloop.controllers.shared.endpoints.trigger_times import ANNOTATION
from kubeloop.runtime.manager import Loop
from kubeloop.testing import Cluster
from tests.controllers.replicas import as_account
from tests.controllers.services import (
    NS,
    add_node,
    add_pod,
    change_service,
    service,
    set_pod,
    start,
)

MANAGED = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
HEADLESS = "service.kubernetes.io/headless"


def ready_cluster(cluster: Cluster, **spec: Any) -> Loop:
    add_node(cluster)
    loop = cluster.start(wire)
    cluster.add(service(**spec))
    cluster.settle()
    return loop


def endpoints(cluster: Cluster, name: str = "s") -> Endpoints:
    found: Endpoints = cluster.client.get(Endpoints, name, NS)
    return found


def is_gone(cluster: Cluster, name: str = "s") -> bool:
    try:
        endpoints(cluster, name)
    except NotFound:
        return True
    return False


def listed(cluster: Cluster) -> list[tuple[list[str], list[str], list[int]]]:
    """Return ready pods, other pods and ports by subset."""
    return [
        (
            [one.target_ref.name for one in subset.addresses if one.target_ref],
            [one.target_ref.name for one in subset.not_ready_addresses if one.target_ref],
            [port.port for port in subset.ports],
        )
        for subset in endpoints(cluster).subsets
    ]


def test_service_without_pods_has_empty_endpoints(cluster: Cluster) -> None:
    ready_cluster(cluster, about={"labels": {"l": "v"}})
    found = endpoints(cluster)
    assert (found.subsets, found.metadata.labels) == ((), {"l": "v", **MANAGED})
    assert found.metadata.owner_references == ()


def test_address_has_pod_node_and_hostname(cluster: Cluster) -> None:
    ready_cluster(cluster)
    made = add_pod(cluster, "p", "10.1.0.1", hostname="h", subdomain="s")
    (subset,) = endpoints(cluster).subsets
    (address,) = subset.addresses
    assert (address.ip, address.node_name, address.hostname) == ("10.1.0.1", "n", "h")
    target = address.target_ref
    assert target is not None
    assert (target.kind, target.namespace, target.name, target.uid) == ("Pod", NS, "p", made.metadata.uid)
    assert [(port.name, port.port, port.protocol) for port in subset.ports] == [("", 80, "TCP")]


def test_pod_is_tracked_until_termination(cluster: Cluster) -> None:
    ready_cluster(cluster)
    add_pod(cluster, "p")
    assert listed(cluster) == []
    set_pod(cluster, "p", ("10.1.0.1",), ready=False)
    assert listed(cluster) == [([], ["p"], [80])]
    set_pod(cluster, "p", ready=True)
    assert listed(cluster) == [(["p"], [], [80])]
    cluster.client.delete(Pod, "p", NS)
    cluster.settle()
    assert listed(cluster) == []


def test_publish_not_ready_addresses_keeps_pods_until_deletion(cluster: Cluster) -> None:
    ready_cluster(cluster, publishNotReadyAddresses=True)
    add_pod(cluster, "p", "10.1.0.1", ready=False)
    cluster.client.delete(Pod, "p", NS)
    cluster.settle()
    assert listed(cluster) == [(["p"], [], [80])]
    cluster.client.delete(Pod, "p", NS, grace_seconds=0)
    cluster.settle()
    assert listed(cluster) == []


def test_addresses_with_the_same_ports_share_a_subset(cluster: Cluster) -> None:
    udp = {"name": "udp", "protocol": "UDP", "port": 53, "targetPort": 5353, "appProtocol": "example.com/x"}
    ready_cluster(cluster, ports=[{"name": "http", "port": 80, "targetPort": 8080}, udp])
    add_pod(cluster, "q", "10.1.0.2")
    add_pod(cluster, "p", "10.1.0.1")
    add_pod(cluster, "r", "10.1.0.3", ready=False)
    assert listed(cluster) == [(["p", "q"], ["r"], [5353, 8080])]  # ports in upstream's order


def test_headless_service_needs_no_ports_and_is_labelled_so(cluster: Cluster) -> None:
    ready_cluster(cluster, clusterIP="None", ports=None)
    add_pod(cluster, "p", "10.1.0.1")
    assert listed(cluster) == [(["p"], [], [])]
    assert endpoints(cluster).metadata.labels == {HEADLESS: "", **MANAGED}


def test_labels_follow_the_service(cluster: Cluster) -> None:
    ready_cluster(cluster, about={"labels": {"l": "v"}})
    change_service(cluster, {"metadata": {"labels": {"l": None, "m": "w", HEADLESS: "x"}}})
    assert endpoints(cluster).metadata.labels == {"m": "w", **MANAGED}


def test_other_annotations_are_kept_and_the_trigger_time_is_set(cluster: Cluster) -> None:
    ready_cluster(cluster)
    made = cluster.client.get(Service, "s", NS).metadata.creation_timestamp
    assert endpoints(cluster).metadata.annotations == {ANNOTATION: made}
    cluster.client.patch(Endpoints, "s", {"metadata": {"annotations": {"other": "x"}}}, NS)
    cluster.advance(100)
    changed = add_pod(cluster, "p", "10.1.0.1")
    since = changed.status.conditions[0].last_transition_time
    assert endpoints(cluster).metadata.annotations == {"other": "x", ANNOTATION: since}
    change_service(cluster, {"metadata": {"labels": {"l": "v"}}})
    assert endpoints(cluster).metadata.annotations == {"other": "x"}


def test_deleted_endpoints_are_recreated(cluster: Cluster) -> None:
    ready_cluster(cluster)
    add_pod(cluster, "p", "10.1.0.1")
    cluster.client.delete(Endpoints, "s", NS)
    cluster.settle()
    assert listed(cluster) == [(["p"], [], [80])]


def test_endpoints_are_deleted_with_their_service(cluster: Cluster) -> None:
    ready_cluster(cluster)
    cluster.client.delete(Service, "s", NS)
    cluster.settle()
    assert is_gone(cluster)


def make_endpoints(cluster: Cluster, name: str, **about: Any) -> None:
    about = {"name": name, "namespace": NS, **about}
    subsets = [{"addresses": [{"ip": "10.9.9.9"}], "ports": [{"port": 1}]}]
    cluster.client.create({"apiVersion": "v1", "kind": "Endpoints", "metadata": about, "subsets": subsets})
    cluster.settle()


def test_orphaned_endpoints_are_deleted_at_start_except_leader_locks(cluster: Cluster) -> None:
    loop = ready_cluster(cluster)
    cluster.stop(loop)
    cluster.client.delete(Service, "s", NS)
    lock = {"control-plane.alpha.kubernetes.io/leader": "{}"}
    make_endpoints(cluster, "lock", annotations=lock)
    cluster.start(wire)
    assert is_gone(cluster, "s")
    assert not is_gone(cluster, "lock")


def test_manual_endpoints_without_a_service_are_kept(cluster: Cluster) -> None:
    ready_cluster(cluster)
    make_endpoints(cluster, "own")
    cluster.advance(days=1)
    assert not is_gone(cluster, "own")


@pytest.mark.parametrize("spec", [{"selector": None}, {"type": "ExternalName", "externalName": "example.com"}])
def test_services_without_selector_are_ignored(cluster: Cluster, spec: dict[str, Any]) -> None:
    ready_cluster(cluster, **spec)
    add_pod(cluster, "p", "10.1.0.1")
    assert is_gone(cluster)
    make_endpoints(cluster, "s")
    cluster.advance(100)
    assert endpoints(cluster).subsets[0].addresses[0].ip == "10.9.9.9"


def test_added_selector_takes_endpoints_over_and_removed_one_keeps_them(cluster: Cluster) -> None:
    ready_cluster(cluster, selector=None)
    make_endpoints(cluster, "s")
    add_pod(cluster, "p", "10.1.0.1")
    change_service(cluster, {"spec": {"selector": {"app": "s"}}})
    assert listed(cluster) == [(["p"], [], [80])]
    change_service(cluster, {"spec": {"selector": None}})
    add_pod(cluster, "q", "10.1.0.2")
    assert listed(cluster) == [(["p"], [], [80])]


def test_excess_addresses_are_truncated_with_an_annotation(cluster: Cluster) -> None:
    add_node(cluster)
    for number in range(1003):
        made = f"p{number}"
        ready = number >= 2
        cluster.client.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": made, "namespace": NS, "labels": {"app": "s"}},
             "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}
        )  # fmt: skip
        ip = f"10.1.{number // 250}.{number % 250 + 1}"
        status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                  "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}  # fmt: skip
        cluster.client.patch(Pod, made, {"status": status}, NS, subresource="status")
    cluster.start(wire)
    cluster.add(service())
    cluster.advance(2)
    ((ready_pods, others, _),) = listed(cluster)
    assert (len(ready_pods), len(others)) == (1000, 0)
    assert endpoints(cluster).metadata.annotations[OVER_CAPACITY] == "truncated"
    before = endpoints(cluster).metadata.resource_version
    change_service(cluster, {"metadata": {"annotations": {"x": "y"}}})
    cluster.advance(days=1)
    assert endpoints(cluster).metadata.resource_version == before
    for number in range(2, 8):
        cluster.client.delete(Pod, f"p{number}", NS, grace_seconds=0)
    cluster.advance(2)
    ((ready_pods, others, _),) = listed(cluster)
    assert (len(ready_pods), len(others)) == (995, 2)
    assert OVER_CAPACITY not in endpoints(cluster).metadata.annotations


def test_batch_period_coalesces_pod_changes(cluster: Cluster) -> None:
    add_node(cluster)
    start(cluster, wire, endpoint_updates_batch_period=5.0)
    cluster.add(service())
    cluster.settle()
    add_pod(cluster, "p", "10.1.0.1")
    cluster.advance(4)
    assert listed(cluster) == []
    cluster.advance(2)
    assert listed(cluster) == [(["p"], [], [80])]


def test_irrelevant_pod_changes_cause_no_write(cluster: Cluster) -> None:
    ready_cluster(cluster)
    add_pod(cluster, "p", "10.1.0.1")
    before = endpoints(cluster).metadata.resource_version
    cluster.client.patch(Pod, "p", {"metadata": {"annotations": {"x": "y"}}}, NS)
    cluster.advance(days=1)
    assert endpoints(cluster).metadata.resource_version == before


def test_controllers_role_is_sufficient(cluster: Cluster) -> None:
    add_node(cluster)
    cluster.start(wire(as_account(cluster, "endpoint-controller")))
    cluster.add(service())
    cluster.settle()
    add_pod(cluster, "p", "10.1.0.1")
    add_pod(cluster, "q", "10.1.0.2")
    assert listed(cluster) == [(["p", "q"], [], [80])]
    cluster.client.delete(Service, "s", NS)
    cluster.settle()
    assert is_gone(cluster)


@pytest.mark.parametrize(
    ("verb", "reason", "message"),
    [
        ("create", "FailedToCreateEndpoint", "Failed to create endpoint for service default/s: "),
        ("patch", "FailedToUpdateEndpoint", "Failed to update endpoint default/s: "),
    ],
)
def test_rejected_write_records_an_event_and_is_retried(cluster: Cluster, verb: str, reason: str, message: str) -> None:
    cluster.faults.fail(verb, "endpoints")
    ready_cluster(cluster)
    add_pod(cluster, "p", "10.1.0.1")
    cluster.advance(0.1)
    (event,) = cluster.events(reason=reason)
    assert event.message == message + "the server is currently unable to handle the request"
    assert (event.type, event.source.component) == ("Warning", "endpoint-controller")
    assert event.involved_object.kind == "Endpoints"
    assert listed(cluster) == [(["p"], [], [80])]
