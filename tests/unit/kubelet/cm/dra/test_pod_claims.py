# SPDX-License-Identifier: Apache-2.0
"""Claims of a pod: their names, owners, reservations and the requests of containers."""

from __future__ import annotations

import msgspec
import pytest

from kubeloop.api.features.gates import DEFAULT_FEATURES, Features
from kubeloop.api.generated.core_v1 import (
    Container,
    Pod,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodSchedulingGroup,
    PodStatus,
    ResourceClaim,
    ResourceRequirements,
)
from kubeloop.api.generated.meta_v1 import OwnerReference
from kubeloop.api.generated.resource_v1 import ResourceClaimConsumerReference
from kubeloop.kubelet.cm.dra.claim_info import claim_info_of
from kubeloop.kubelet.cm.dra.messages import PreparedDevice
from kubeloop.kubelet.cm.dra.pod_claims import PodClaimError, check_claim, iter_claim_names, requests_of_container
from tests.unit.kubelet.cm.dra.dra_world import World, claim, pod

GROUPS = Features(DEFAULT_FEATURES.enabled | {"DRAWorkloadResourceClaims"})


def with_template(**status: str | None) -> Pod:
    """Return a pod whose claim comes from a template, with the name of the claim in its status."""
    found = pod("p")
    entry = PodResourceClaim(name="gpu", resource_claim_template_name="t")
    statuses = tuple(PodResourceClaimStatus(name=name, resource_claim_name=one) for name, one in status.items())
    spec = msgspec.structs.replace(found.spec, resource_claims=(entry,))
    return msgspec.structs.replace(found, spec=spec, status=PodStatus(resource_claim_statuses=statuses))


def owned(kind: str, name: str, uid: str, api_version: str = "v1") -> tuple[OwnerReference, ...]:
    return (OwnerReference(kind=kind, name=name, uid=uid, api_version=api_version, controller=True),)


def error_of(wanted: Pod, features: Features = DEFAULT_FEATURES, **fields: object) -> str:
    """Return why a pod may not use a claim that it should own."""
    found = claim("x", pods=("p",))
    meta = msgspec.structs.replace(found.metadata, **fields)
    try:
        check_claim(wanted, msgspec.structs.replace(found, metadata=meta), features, must_be_owned=True)
    except PodClaimError as error:
        return str(error)
    return ""


def test_names_come_from_the_spec_or_from_the_status() -> None:
    assert list(iter_claim_names(pod("p", "x", "y"), DEFAULT_FEATURES)) == [("x", False), ("y", False)]
    assert list(iter_claim_names(with_template(gpu="made"), DEFAULT_FEATURES)) == [("made", True)]
    assert list(iter_claim_names(with_template(gpu=None), DEFAULT_FEATURES)) == []  # none is needed
    with pytest.raises(PodClaimError, match=r'^pod "ns/p": ResourceClaim not created yet$'):
        list(iter_claim_names(with_template(), DEFAULT_FEATURES))
    entry = PodResourceClaim(name="odd")
    odd = msgspec.structs.replace(pod("p"), spec=msgspec.structs.replace(pod("p").spec, resource_claims=(entry,)))
    with pytest.raises(PodClaimError, match=r'pod "ns/p", spec.resourceClaim "odd": none of the supported fields'):
        list(iter_claim_names(odd, DEFAULT_FEATURES))


def test_a_generated_claim_must_belong_to_the_pod() -> None:
    about = "ResourceClaim ns/x was not created for Pod ns/p"
    assert error_of(pod("p"), owner_references=owned("Pod", "p", "p")) == ""
    assert error_of(pod("p"), owner_references=owned("Pod", "p", "old")) == f"{about} (Pod is not owner)"
    assert error_of(pod("p")) == f"{about} (Pod is not owner)"


def test_a_claim_of_a_pod_group_needs_the_feature() -> None:
    member = pod("p")
    group = PodSchedulingGroup(pod_group_name="g")
    member = msgspec.structs.replace(member, spec=msgspec.structs.replace(member.spec, scheduling_group=group))
    owners = owned("PodGroup", "g", "any", "scheduling.k8s.io/v1beta1")
    assert error_of(member, GROUPS, owner_references=owners) == ""
    assert "Pod is not owner" in error_of(member, owner_references=owners)
    other = owned("PodGroup", "g", "any", "example.com/v1")
    assert "(neither Pod nor PodGroup g is the owner)" in error_of(member, GROUPS, owner_references=other)
    reserved = ResourceClaimConsumerReference(api_group="scheduling.k8s.io", resource="podgroups", name="g", uid="any")
    found = claim("x", pods=())
    found = msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, reserved_for=(reserved,)))
    check_claim(member, found, GROUPS, must_be_owned=False)
    for wanted, features in ((member, DEFAULT_FEATURES), (pod("p"), GROUPS)):
        with pytest.raises(PodClaimError, match=r"pod p \(p\) is not allowed to use ResourceClaim x \(uid-x\)"):
            check_claim(wanted, found, features, must_be_owned=False)


def test_a_container_has_the_requests_of_its_claims() -> None:
    wanted = with_template(gpu="made")
    claims = (ResourceClaim(name="gpu", request="a"), ResourceClaim(name="gpu", request="b"))
    container = Container(name="c", resources=ResourceRequirements(claims=claims))
    assert requests_of_container(wanted, container, DEFAULT_FEATURES) == {"made": ["a", "b"]}
    assert requests_of_container(wanted, Container(name="d"), DEFAULT_FEATURES) == {}
    assert requests_of_container(with_template(gpu=None), container, DEFAULT_FEATURES) == {}


def test_the_status_has_each_device_of_a_request_once() -> None:
    world = World("a")
    wanted = with_template(gpu="made")
    claims = (ResourceClaim(name="gpu", request="r/sub"),)
    container = Container(name="c", resources=ResourceRequirements(claims=claims))
    wanted = msgspec.structs.replace(wanted, spec=msgspec.structs.replace(wanted.spec, containers=(container,)))
    devices = (
        PreparedDevice(request_names=("r",), pool_name="p", device_name="1", cdi_device_ids=("v/c=1",)),
        PreparedDevice(request_names=("r",), pool_name="p", device_name="2", cdi_device_ids=("v/c=1",)),
        PreparedDevice(request_names=("other",), pool_name="p", device_name="3"),
        PreparedDevice(pool_name="p", device_name="4"),
    )
    info = claim_info_of(claim("made", "a", pods=("p",)), DEFAULT_FEATURES)
    world.claims.put(info.with_devices("a", devices))
    (found,) = world.manager.resource_statuses(wanted, "c")
    assert found.name == "claim:gpu/r/sub"
    assert [one.resource_id for one in found.resources] == ["v/c=1", "a/p/4"]
    assert world.manager.resource_statuses(wanted, "other") == ()
