# SPDX-License-Identifier: Apache-2.0
"""Tests of claims: created for pods, recorded, reserved, released, and deleted with their pods."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Pod, ResourceRequirements
from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.api.scalars.wire import Quantity
from kubeloop.controllers import resourceclaim
from kubeloop.controllers.resourceclaim.policy import name_base
from kubeloop.testing import Cluster, container, node, pod
from tests.controllers.devices import FINALIZER, allocate, by_name, claim, from_template, template
from tests.controllers.permissions import start_as

ANNOTATION = "resource.kubernetes.io/pod-claim-name"
GONE = {"phase": "Succeeded"}


@pytest.fixture
def claims(cluster: Cluster) -> Cluster:
    start_as(cluster, "resource-claim-controller", resourceclaim.wire)
    return cluster


def listed(cluster: Cluster) -> list[ResourceClaim]:
    return list(cluster.client.list(ResourceClaim, "default").items)


def found(cluster: Cluster, name: str) -> Any:
    try:
        return cluster.client.get(ResourceClaim, name, "default")
    except NotFound:
        return None


def statuses(cluster: Cluster, name: str = "pod") -> dict[str, str | None]:
    said = cluster.client.get(Pod, name, "default").status.resource_claim_statuses
    return {one.name: one.resource_claim_name for one in said}


def add(cluster: Cluster, name: str, *wanted: Any, **about: Any) -> Any:
    made = cluster.add(pod(name, resource_claims=wanted, **about))
    cluster.settle()
    return made


def end(cluster: Cluster, name: str) -> None:
    cluster.client.patch(Pod, name, {"status": GONE}, "default", subresource="status")
    cluster.settle()


# Making


def test_pod_gets_a_claim_from_its_template_in_its_status(claims: Cluster) -> None:
    template(claims, labels={"l": "1"}, annotations={"a": "2"})
    made = add(claims, "pod", from_template())
    (one,) = listed(claims)
    assert one.metadata.name.startswith("pod-gpu-")
    assert one.metadata.annotations == {"a": "2", ANNOTATION: "gpu"}
    assert one.metadata.labels == {"l": "1"}
    (owner,) = one.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Pod", "pod", made.metadata.uid, True)
    assert not owner.block_owner_deletion
    assert one.spec.devices.requests is not None
    assert one.spec.devices.requests[0].name == "gpu"
    assert statuses(claims) == {"gpu": one.metadata.name}


def test_several_claims_are_recorded_in_one_status_write(claims: Cluster) -> None:
    template(claims)
    template(claims, "other")
    claim(claims, "by-hand")
    add(claims, "pod", from_template("b"), from_template("a", "other"), by_name("by-hand", "c"))
    said = statuses(claims)
    assert sorted(said) == ["a", "b"]
    assert {one.metadata.name for one in listed(claims)} == {*said.values(), "by-hand"}


def test_missing_template_records_an_event_and_is_waited_for(claims: Cluster) -> None:
    add(claims, "pod", from_template())
    (event, *_) = claims.events(reason="FailedResourceClaimCreation")
    expected = 'resourceclaimtemplate.resource.k8s.io "template" not found'
    assert event.message == f'PodResourceClaim gpu: resource claim template "template": {expected}'
    assert (event.type, event.source.component) == ("Warning", "resource_claim")
    template(claims)
    assert len(listed(claims)) == 1


def test_unrecorded_claim_is_found_again(claims: Cluster) -> None:
    template(claims)
    claims.faults.clear()
    add(claims, "pod", from_template())
    claims.client.patch(Pod, "pod", {"status": {"resourceClaimStatuses": None}}, "default", subresource="status")
    claims.settle()
    (one,) = listed(claims)
    assert statuses(claims) == {"gpu": one.metadata.name}


def test_failed_status_write_creates_no_second_claim(cluster: Cluster) -> None:
    cluster.start(resourceclaim.wire)
    template(cluster)
    cluster.faults.fail("patch", "pods", times=5)
    cluster.faults.delay(3, "watch", "resourceclaims", times=3)
    cluster.faults.drop_watches("resourceclaims")
    add(cluster, "pod", from_template())
    cluster.advance(30)
    (one,) = listed(cluster)
    assert statuses(cluster) == {"gpu": one.metadata.name}


def test_deleted_claim_is_recreated(claims: Cluster) -> None:
    template(claims)
    add(claims, "pod", from_template())
    (first,) = listed(claims)
    claims.client.delete(ResourceClaim, first.metadata.name, "default")
    claims.settle()
    (second,) = listed(claims)
    assert second.metadata.uid != first.metadata.uid
    assert statuses(claims) == {"gpu": second.metadata.name}


def test_pod_being_deleted_gets_no_claim(claims: Cluster) -> None:
    held = pod("pod", resource_claims=(from_template(),), node="n")
    claims.client.create(held)
    claims.client.patch(Pod, "pod", {"metadata": {"finalizers": ["example.com/held"]}}, "default")
    claims.client.delete(Pod, "pod", "default")
    template(claims)
    assert listed(claims) == []


def test_rejected_claim_records_an_event(claims: Cluster) -> None:
    template(claims, labels={"l": "1"})
    quota = {"hard": {"count/resourceclaims.resource.k8s.io": "0"}}
    meta = {"name": "q", "namespace": "default"}
    claims.client.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": quota})
    claims.client.patch("resourcequotas", "q", {"status": quota}, "default", subresource="status")
    add(claims, "pod", from_template())
    (event, *_) = claims.events(reason="FailedResourceClaimCreation")
    assert event.message.startswith("PodResourceClaim gpu: create ResourceClaim : ")
    shown = claims.context.telemetry.registry.render()
    assert 'resourceclaim_creates_total{admin_access="false"' in shown


@pytest.mark.parametrize(
    ("pod_name", "claim_name", "base"),
    [
        ("pod", "gpu", "pod-gpu-"),
        ("p" * 100, "c" * 20, "p" * 46 + "-" + "c" * 9),
        ("a" * 52, "gpu", "a" * 52 + "-gpu-"),
    ],
)
def test_long_names_are_truncated_evenly(pod_name: str, claim_name: str, base: str) -> None:
    assert name_base(pod_name, claim_name) == base


# Use


def test_claim_is_released_when_its_last_pod_terminated(claims: Cluster) -> None:
    claim(claims, "shared")
    first = add(claims, "first", by_name("shared"))
    second = add(claims, "second", by_name("shared"))
    allocate(claims, "shared", first, second)
    end(claims, "first")
    assert [one.name for one in found(claims, "shared").status.reserved_for] == ["second"]
    assert found(claims, "shared").status.allocation is not None
    end(claims, "second")
    freed = found(claims, "shared")
    assert (freed.status.reserved_for, freed.status.allocation) == ((), None)
    assert freed.metadata.finalizers == ()


def test_deleted_pod_releases_its_claim(claims: Cluster) -> None:
    claim(claims, "c")
    user = add(claims, "pod", by_name("c"))
    allocate(claims, "c", user)
    claims.client.delete(Pod, "pod", "default", grace_seconds=0)
    claims.settle()
    assert found(claims, "c").status.allocation is None


def test_terminating_pod_keeps_its_claim_while_running(claims: Cluster) -> None:
    claims.add(node("n"))
    claim(claims, "c")
    user = add(claims, "pod", by_name("c"), node="n", phase="Running")
    allocate(claims, "c", user)
    claims.client.delete(Pod, "pod", "default")
    claims.settle()
    assert found(claims, "c").status.reserved_for
    end(claims, "pod")
    assert not found(claims, "c").status.reserved_for


def test_other_consumers_are_kept(claims: Cluster) -> None:
    claim(claims, "c")
    user = add(claims, "pod", by_name("c"))
    allocate(claims, "c", user)
    other = {"apiGroup": "example.com", "resource": "things", "name": "thing", "uid": "1"}
    mine = {"resource": "pods", "name": "pod", "uid": user.metadata.uid}
    status = {"status": {"reservedFor": [mine, other]}}
    claims.client.patch(ResourceClaim, "c", status, "default", subresource="status")
    end(claims, "pod")
    assert [one.name for one in found(claims, "c").status.reserved_for] == ["thing"]
    assert found(claims, "c").status.allocation is not None


def test_recreated_pod_does_not_keep_the_reservation(claims: Cluster) -> None:
    claim(claims, "c")
    user = add(claims, "pod", by_name("c"))
    claims.client.delete(Pod, "pod", "default", grace_seconds=0)
    add(claims, "pod", by_name("c"))
    allocate(claims, "c", user)
    claims.settle()
    assert found(claims, "c").status.allocation is None


def test_pod_missing_in_the_cache_keeps_its_claim(cluster: Cluster) -> None:
    cluster.start(resourceclaim.wire)
    claim(cluster, "c")
    cluster.faults.delay(60, "watch", "pods", times=None)
    cluster.faults.drop_watches("pods")
    cluster.settle()
    user = cluster.add(pod("pod", resource_claims=(by_name("c"),)))
    allocate(cluster, "c", user)
    cluster.advance(5)
    assert found(cluster, "c").status.allocation is not None


def test_deleted_allocated_claim_is_deallocated(claims: Cluster) -> None:
    claim(claims, "c")
    allocate(claims, "c")
    claims.settle()
    assert found(claims, "c").status.allocation is not None  # not used yet
    claims.client.delete(ResourceClaim, "c", "default")
    claims.settle()
    assert found(claims, "c") is None


def test_deleted_claim_in_use_is_kept(claims: Cluster) -> None:
    claim(claims, "c")
    user = add(claims, "pod", by_name("c"))
    allocate(claims, "c", user)
    claims.client.delete(ResourceClaim, "c", "default")
    claims.settle()
    assert found(claims, "c").metadata.finalizers == (FINALIZER,)
    end(claims, "pod")
    assert found(claims, "c") is None


def test_generated_claim_is_deleted_when_its_pod_is_done(claims: Cluster) -> None:
    template(claims)
    user = add(claims, "pod", from_template())
    name = statuses(claims)["gpu"] or ""
    allocate(claims, name, user)
    end(claims, "pod")
    assert found(claims, name) is None


def test_pod_bound_without_scheduler_gets_its_reservation(claims: Cluster) -> None:
    claims.add(node("n"))
    claim(claims, "c")
    user = add(claims, "pod", by_name("c"), node="n")
    allocate(claims, "c")
    claims.settle()
    assert [one.uid for one in found(claims, "c").status.reserved_for] == [user.metadata.uid]


def test_unbound_pod_is_left_to_the_scheduler(claims: Cluster) -> None:
    claim(claims, "c")
    add(claims, "pod", by_name("c"))
    allocate(claims, "c")
    claims.settle()
    assert found(claims, "c").status.reserved_for == ()


def test_extended_resource_claim_is_deleted_with_its_pod(claims: Cluster) -> None:
    claim(claims, "extended")
    gpu = {"example.com/gpu": Quantity("1")}
    user = add(claims, "pod", containers=(container(resources=ResourceRequirements(limits=gpu, requests=gpu)),))
    mapping = {"containerName": "app", "requestName": "gpu", "resourceName": "example.com/gpu"}
    told = {"extendedResourceClaimStatus": {"resourceClaimName": "extended", "requestMappings": [mapping]}}
    claims.client.patch(Pod, "pod", {"status": told}, "default", subresource="status")
    allocate(claims, "extended", user)
    claims.settle()
    end(claims, "pod")
    assert found(claims, "extended").status.allocation is None


def test_metrics_count_claims(claims: Cluster) -> None:
    template(claims)
    claim(claims, "by-hand")
    add(claims, "pod", from_template())
    allocate(claims, "by-hand")
    claims.settle()
    shown = claims.context.telemetry.registry.render()
    prefix = "dynamic_resource_allocation_resource_claims"
    assert f'{prefix}{{admin_access="false",allocated="true",source=""}} 1' in shown
    assert f'{prefix}{{admin_access="false",allocated="false",source="resource_claim_template"}} 1' in shown
