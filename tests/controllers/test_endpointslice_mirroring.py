# SPDX-License-Identifier: Apache-2.0
"""Tests of mirroring of manual Endpoints to slices."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Endpoints, Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.controllers.endpointslice_mirroring import wire
from kubeloop.runtime.manager import Loop
from kubeloop.testing import Cluster
from tests.controllers.replicas import as_account
from tests.controllers.services import MANAGED_BY, NS, SERVICE_NAME, change_service, service, slices, start

MANAGER = "endpointslicemirroring-controller.k8s.io"
PORT = {"name": "http", "port": 80, "protocol": "TCP"}


def subset(*ips: str, others: tuple[str, ...] = (), port: int = 80) -> dict[str, Any]:
    found: dict[str, Any] = {"ports": [{**PORT, "port": port}]}
    if ips:
        found["addresses"] = [{"ip": one} for one in ips]
    if others:
        found["notReadyAddresses"] = [{"ip": one} for one in others]
    return found


def endpoints(*subsets: dict[str, Any], **about: Any) -> dict[str, Any]:
    about = {"name": "s", "namespace": NS, **about}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": about, "subsets": list(subsets)}


def mirror(cluster: Cluster, *subsets: dict[str, Any], **about: Any) -> Loop:
    """A service without a selector, and its endpoints."""
    loop = cluster.start(wire)
    cluster.client.create(service(selector=None))
    cluster.client.create(endpoints(*subsets, **about))
    cluster.settle()
    return loop


def change(cluster: Cluster, patch: dict[str, Any]) -> None:
    cluster.client.patch(Endpoints, "s", patch, NS)
    cluster.settle()


def ready_addresses(cluster: Cluster) -> dict[tuple[str, int | None], dict[str, bool | None]]:
    """Return ready addresses by address type and port."""
    found: dict[tuple[str, int | None], dict[str, bool | None]] = {}
    for one in slices(cluster):
        (port,) = one.ports or ()
        place = one.address_type, port.port
        assert place not in found
        found[place] = {(each.addresses or ("",))[0]: each.conditions.ready for each in one.endpoints or ()}
    return found


def test_slice_mirrors_the_endpoints(cluster: Cluster) -> None:
    mirror(cluster)
    target = {"kind": "Pod", "name": "p", "namespace": NS, "uid": "u"}
    address = {"ip": "10.1.0.1", "hostname": "h", "nodeName": "n", "targetRef": target}
    change(cluster, {"subsets": [{"addresses": [address], "ports": [{**PORT, "appProtocol": "example.com/x"}]}]})
    (found,) = slices(cluster)
    (endpoint,) = found.endpoints or ()
    assert (endpoint.addresses, endpoint.hostname, endpoint.node_name) == (("10.1.0.1",), "h", "n")
    assert endpoint.target_ref is not None
    assert endpoint.target_ref.uid == "u"
    assert (endpoint.conditions.ready, endpoint.conditions.serving) == (True, None)
    (port,) = found.ports or ()
    assert (port.name, port.port, port.protocol, port.app_protocol) == ("http", 80, "TCP", "example.com/x")


def test_slice_is_owned_by_and_named_after_the_endpoints(cluster: Cluster) -> None:
    mirror(cluster, subset("10.1.0.1"), labels={"l": "v"})
    (found,) = slices(cluster)
    assert found.metadata.generate_name == "s-"
    assert found.metadata.labels == {"l": "v", SERVICE_NAME: "s", MANAGED_BY: MANAGER}
    (owner,) = found.metadata.owner_references
    uid = cluster.client.get(Endpoints, "s", NS).metadata.uid
    assert (owner.kind, owner.api_version, owner.uid, owner.controller) == ("Endpoints", "v1", uid, True)


def test_subsets_and_families_have_separate_slices(cluster: Cluster) -> None:
    mirror(cluster, subset("10.1.0.1", "fd00::1", others=("10.1.0.2",)), subset("10.1.0.1", port=81))
    assert ready_addresses(cluster) == {
        ("IPv4", 80): {"10.1.0.1": True, "10.1.0.2": False},
        ("IPv6", 80): {"fd00::1": True},
        ("IPv4", 81): {"10.1.0.1": True},
    }


def test_changes_are_applied_in_place(cluster: Cluster) -> None:
    mirror(cluster, subset("10.1.0.1"))
    (before,) = slices(cluster)
    change(cluster, {"subsets": [subset("10.1.0.2", others=("10.1.0.1",))]})
    assert ready_addresses(cluster) == {("IPv4", 80): {"10.1.0.2": True, "10.1.0.1": False}}
    change(cluster, {"subsets": [subset("10.1.0.2", port=90)]})
    assert ready_addresses(cluster) == {("IPv4", 90): {"10.1.0.2": True}}
    (after,) = slices(cluster)
    assert after.metadata.uid == before.metadata.uid  # the one that was no longer needed became the new one


def test_empty_endpoints_have_no_slices(cluster: Cluster) -> None:
    mirror(cluster, subset("10.1.0.1"))
    change(cluster, {"subsets": []})
    assert slices(cluster) == []


def test_labels_and_annotations_are_mirrored_with_exceptions(cluster: Cluster) -> None:
    own = {
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "endpoints.kubernetes.io/last-change-trigger-time": "x",
    }
    mirror(cluster, subset("10.1.0.1"), annotations={"a": "b", **own})
    (found,) = slices(cluster)
    assert found.metadata.annotations == {"a": "b"}
    change(cluster, {"metadata": {"annotations": {"a": None, "c": "d"}, "labels": {"l": "w"}}})
    (found,) = slices(cluster)
    assert found.metadata.annotations == {"c": "d"}
    assert found.metadata.labels["l"] == "w"


@pytest.mark.parametrize(
    "about",
    [
        {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        {"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}},
    ],
)
def test_skip_mirror_label_prevents_and_removes_the_mirror(cluster: Cluster, about: dict[str, Any]) -> None:
    mirror(cluster, subset("10.1.0.1"))
    assert len(slices(cluster)) == 1
    change(cluster, {"metadata": about})
    assert slices(cluster) == []


def test_service_with_a_selector_is_not_mirrored(cluster: Cluster) -> None:
    mirror(cluster, subset("10.1.0.1"))
    change_service(cluster, {"spec": {"selector": {"app": "s"}}})
    assert slices(cluster) == []
    change_service(cluster, {"spec": {"selector": None}})
    assert len(slices(cluster)) == 1


def test_mirror_is_created_and_deleted_with_the_service(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.client.create(endpoints(subset("10.1.0.1")))
    cluster.settle()
    assert slices(cluster) == []
    cluster.client.create(service(selector=None))
    cluster.settle()
    assert len(slices(cluster)) == 1
    cluster.client.delete(Service, "s", NS)
    cluster.settle()
    assert slices(cluster) == []


def test_mirror_is_deleted_with_the_endpoints(cluster: Cluster) -> None:
    mirror(cluster, subset("10.1.0.1"))
    cluster.client.delete(Endpoints, "s", NS)
    cluster.settle()
    assert slices(cluster) == []


def test_slices_of_recreated_endpoints_get_the_new_owner(cluster: Cluster) -> None:
    loop = mirror(cluster, subset("10.1.0.1"))
    cluster.stop(loop)
    cluster.client.delete(Endpoints, "s", NS)
    cluster.client.create(endpoints(subset("10.1.0.1")))
    cluster.start(wire)
    (found,) = slices(cluster)
    uid = cluster.client.get(Endpoints, "s", NS).metadata.uid
    assert [owner.uid for owner in found.metadata.owner_references] == [uid]


def test_deleted_or_modified_slice_is_restored(cluster: Cluster) -> None:
    mirror(cluster, subset("10.1.0.1"))
    (found,) = slices(cluster)
    cluster.client.patch(EndpointSlice, found.metadata.name, {"endpoints": [{"addresses": ["10.9.9.9"]}]}, NS)
    cluster.settle()
    assert ready_addresses(cluster) == {("IPv4", 80): {"10.1.0.1": True}}
    cluster.client.delete(EndpointSlice, found.metadata.name, NS)
    cluster.settle()
    assert ready_addresses(cluster) == {("IPv4", 80): {"10.1.0.1": True}}


def test_duplicate_slice_is_deleted(cluster: Cluster) -> None:
    loop = mirror(cluster, subset("10.1.0.1"))
    cluster.stop(loop)
    (found,) = slices(cluster)
    cluster.add(
        {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "ports": [PORT],
         "metadata": {"name": "second", "namespace": NS, "labels": dict(found.metadata.labels)},
         "endpoints": [{"addresses": ["10.1.0.1"]}]}
    )  # fmt: skip
    cluster.start(wire)
    cluster.advance(2)
    assert len(slices(cluster)) == 1


def test_excess_addresses_are_skipped_with_an_event(cluster: Cluster) -> None:
    start(cluster, wire, mirroring_max_endpoints_per_subset=2)
    cluster.client.create(service(selector=None))
    cluster.client.create(endpoints(subset("10.1.0.1", "10.1.0.2", others=("10.1.0.3",))))
    cluster.settle()
    assert ready_addresses(cluster) == {("IPv4", 80): {"10.1.0.1": True, "10.1.0.2": True}}
    (event,) = cluster.events(reason="TooManyAddressesToMirror")
    assert event.message == (
        "A max of 2 addresses can be mirrored to EndpointSlices per Endpoints subset. 1 addresses were skipped"
    )
    assert (event.type, event.source.component) == ("Warning", "endpoint-slice-mirroring-controller")


def test_controllers_role_is_sufficient(cluster: Cluster) -> None:
    cluster.start(wire(as_account(cluster, "endpointslicemirroring-controller")))
    cluster.client.create(service(selector=None))
    cluster.client.create(endpoints(subset("10.1.0.1")))
    cluster.settle()
    change(cluster, {"subsets": [subset("10.1.0.2")]})
    assert ready_addresses(cluster) == {("IPv4", 80): {"10.1.0.2": True}}
    cluster.client.delete(Endpoints, "s", NS)
    cluster.settle()
    assert slices(cluster) == []


def test_unchanged_mirror_is_not_written(cluster: Cluster) -> None:
    mirror(cluster, subset("10.1.0.1", "fd00::1"))
    before = [one.metadata.resource_version for one in slices(cluster)]
    cluster.advance(days=1)
    assert [one.metadata.resource_version for one in slices(cluster)] == before
