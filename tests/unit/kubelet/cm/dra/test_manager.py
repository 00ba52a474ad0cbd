# SPDX-License-Identifier: Apache-2.0
"""DRA manager: order of checkpoint and calls, shared claims, errors with upstream's texts, and pods that are gone."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from kubeloop.api.features.gates import DEFAULT_FEATURES, Features
from kubeloop.api.generated.core_v1 import (
    ContainerExtendedResourceRequest,
    PodExtendedResourceClaimStatus,
    PodStatus,
)
from kubeloop.kubelet.cm.dra.claim_info import decode_claims
from kubeloop.kubelet.cm.dra.claim_info_cache import CHECKPOINT
from kubeloop.kubelet.cm.dra.driver_calls import DynamicResourceError
from kubeloop.kubelet.cm.dra.messages import (
    NodePrepareResourceResponse,
    NodePrepareResourcesResponse,
    NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
)
from kubeloop.kubelet.cm.resource_managers import PrepareError, RunOptionsError
from tests.unit.kubelet.cm.dra.dra_world import World, claim, pod

OPTIONAL = Features(DEFAULT_FEATURES.enabled | {"DRAOptionalNodeOperations"})
FAILED = "Failed to prepare dynamic resources: prepare dynamic resources: "


def prepare_error(world: World, name: str, *claims: str) -> str:
    """Return the message of the event of a pod that cannot be prepared."""
    with pytest.raises(PrepareError) as raised:
        asyncio.run(world.manager.prepare(pod(name, *claims)))
    assert raised.value.reason == "FailedPrepareDynamicResources"
    assert str(raised.value).startswith(FAILED)
    return str(raised.value).removeprefix(FAILED)


def devices(world: World, name: str, *claims: str) -> list[str]:
    """Return the CDI devices of a pod's container."""
    found = pod(name, *claims)
    assert found.spec.containers
    options = asyncio.run(world.manager.run_options(found, found.spec.containers[0]))
    return [one.name for one in options.cdi_devices]


def test_claims_are_prepared_once_and_unprepared_after_the_last_pod() -> None:
    world = World("a", "b")
    world.client.put(claim("x", "a", "b", pods=("p1", "p2")))
    asyncio.run(world.manager.prepare(pod("p1", "x")))
    assert world.calls == [("prepare", "a", ("x",)), ("prepare", "b", ("x",))]
    asyncio.run(world.manager.prepare(pod("p2", "x")))
    assert len(world.calls) == 2
    assert devices(world, "p2", "x") == ["a/d=x", "b/d=x"]
    assert 'dra_resource_claims_in_use{driver_name="<any>"} 1' in world.registry.render()
    asyncio.run(world.manager.unprepare(pod("p1", "x")))
    assert len(world.calls) == 2
    asyncio.run(world.manager.unprepare(pod("p2", "x")))
    assert world.calls[2:] == [("unprepare", "a", ("x",)), ("unprepare", "b", ("x",))]
    asyncio.run(world.manager.unprepare(pod("p2", "x")))
    assert len(world.calls) == 4
    assert decode_claims(world.store.files[CHECKPOINT]) == ()
    page = world.registry.render()
    assert 'dra_operations_duration_seconds_count{is_error="false",operation_name="PrepareResources"} 2' in page
    assert 'dra_operations_duration_seconds_count{is_error="false",operation_name="UnprepareResources"} 3' in page


def test_claims_of_one_driver_are_prepared_by_one_call() -> None:
    world = World("a")
    world.client.put(claim("x", "a", pods=("p",)))
    world.client.put(claim("y", "a", pods=("p",)))
    asyncio.run(world.manager.prepare(pod("p", "x", "y", "x")))
    assert world.calls == [("prepare", "a", ("x", "y"))]
    asyncio.run(world.manager.unprepare(pod("p", "x", "y")))
    assert world.calls[1:] == [("unprepare", "a", ("x", "y"))]


def test_a_restarted_kubelet_has_the_devices_and_prepares_again_before_a_new_sandbox() -> None:
    world = World("a")
    world.client.put(claim("x", "a", pods=("p",)))
    asyncio.run(world.manager.prepare(pod("p", "x")))
    world.start()
    assert devices(world, "p", "x") == ["a/d=x"]
    asyncio.run(world.manager.prepare(pod("p", "x")))
    assert world.calls == [("prepare", "a", ("x",))] * 2
    assert devices(world, "p", "x") == ["a/d=x"]  # not twice


def test_a_pod_that_fails_a_check_has_no_reference_of_its_claims() -> None:
    world = World("a")
    world.client.put(claim("free", "a", pods=("other",)))
    world.client.put(claim("foreign", "z", pods=("p",)))
    world.client.put(claim("good", "a", pods=("p",)))
    raw = claim("raw", pods=("p",))
    world.client.put(msgspec.structs.replace(raw, status=msgspec.structs.replace(raw.status, allocation=None)))
    world.client.put(claim("skips", "a", pods=("p",), skips=("*",)))
    denied = "pod p (p) is not allowed to use ResourceClaim free (uid-free)"
    assert prepare_error(world, "p", "good", "free") == denied
    assert prepare_error(world, "p", "good", "foreign") == "DRA driver z is not registered"
    assert prepare_error(world, "p", "good", "none") == 'fetch ResourceClaim none: "none" not found'
    assert prepare_error(world, "p", "good", "raw") == "ResourceClaim raw: not allocated"
    gate = "ResourceClaim skips: DRAOptionalNodeOperations feature gate is disabled on kubelet"
    assert prepare_error(world, "p", "good", "skips") == gate
    assert not world.claims.has_pod("p")
    assert world.calls == []


def test_errors_of_a_driver_are_those_of_upstream() -> None:
    world = World("a", "b")
    world.client.put(claim("x", "a", "b", pods=("p",)))
    world.failures["b", "x"] = "no power"
    assert prepare_error(world, "p", "x") == "NodePrepareResources failed for ResourceClaim x: no power"
    assert world.claims.has_pod("p")
    world.broken.add("b")
    said = "NodePrepareResources: rpc error: code = Unavailable desc = broken"
    assert prepare_error(world, "p", "x") == said
    world.broken.clear()
    world.answer = NodePrepareResourcesResponse(claims={"other": NodePrepareResourceResponse()})
    assert prepare_error(world, "p", "x") == "NodePrepareResources returned result for unknown claim UID other"
    world.answer = NodePrepareResourcesResponse()
    assert prepare_error(world, "p", "x") == "NodePrepareResources skipped 1 ResourceClaims"
    page = world.registry.render()
    assert 'dra_operations_duration_seconds_count{is_error="true",operation_name="PrepareResources"} 4' in page


def test_an_error_of_unprepare_keeps_the_claim_and_blocks_other_pods() -> None:
    world = World("a")
    world.client.put(claim("x", "a", pods=("p", "q")))
    asyncio.run(world.manager.prepare(pod("p", "x")))
    world.failures["a", "x"] = "busy"
    why = "unprepare dynamic resources: NodeUnprepareResources failed for ResourceClaim x: busy"
    with pytest.raises(DynamicResourceError, match=why):
        asyncio.run(world.manager.unprepare(pod("p", "x")))
    assert prepare_error(world, "q", "x") == "ResourceClaim x is being unprepared"
    del world.plugins["a"]
    with pytest.raises(DynamicResourceError, match="DRA driver a is not registered"):
        asyncio.run(world.manager.unprepare(pod("p", "x")))
    assert world.claims.has_pod("p")


def test_a_claim_of_the_same_name_must_wait_for_its_predecessor() -> None:
    world = World("a")
    world.client.put(claim("x", "a", pods=("p",)))
    asyncio.run(world.manager.prepare(pod("p", "x")))
    world.client.put(claim("x", "a", pods=("q",), uid="new"))
    why = "old ResourceClaim with same name x and different UID uid-x still exists (previous pod force-deleted?!)"
    assert prepare_error(world, "q", "x") == why
    world.pods = {"q": pod("q", "x")}
    asyncio.run(world.manager.reconcile())
    asyncio.run(world.manager.prepare(pod("q", "x")))
    assert world.prepared == {("a", "new")}


def test_nothing_is_unprepared_until_the_pods_are_known() -> None:
    world = World("a")
    world.client.put(claim("x", "a", pods=("p",)))
    asyncio.run(world.manager.prepare(pod("p", "x")))
    world.pods = None
    asyncio.run(world.manager.reconcile())
    assert world.prepared
    world.pods = {"p": pod("p", "x")}
    asyncio.run(world.manager.reconcile())
    assert world.prepared
    world.pods = {}
    world.failures["a", "x"] = "busy"
    asyncio.run(world.manager.reconcile())  # tried again with the next one
    world.failures.clear()
    asyncio.run(world.manager.reconcile())
    assert not world.prepared


def test_no_driver_is_called_if_the_checkpoint_cannot_be_written() -> None:
    world = World("a")
    world.client.put(claim("x", "a", pods=("p",)))
    world.is_disk_full = True
    assert prepare_error(world, "p", "x").startswith("checkpoint ResourceClaim cache: ")
    assert world.calls == []


def test_operations_that_devices_skip_are_not_called() -> None:
    world = World(features=OPTIONAL)  # the driver is not even installed
    world.client.put(claim("x", "a", pods=("p",), skips=("*",)))
    asyncio.run(world.manager.prepare(pod("p", "x")))
    asyncio.run(world.manager.unprepare(pod("p", "x")))
    page = world.registry.render()
    assert 'dra_node_prepare_skips_total{driver_name="a"} 1' in page
    assert 'dra_node_unprepare_skips_total{driver_name="a"} 1' in page
    assert not world.claims.has_pod("p")


def test_extended_resources_have_the_devices_of_their_requests() -> None:
    world = World("a")
    world.client.put(claim("ext", "a", pods=("p",)))
    wanted = pod("p")
    assert wanted.spec.containers
    first = msgspec.structs.replace(
        wanted.spec.containers[0],
        resources=msgspec.structs.replace(wanted.spec.containers[0].resources, requests={"example.com/gpu": "1"}),
    )
    mapping = ContainerExtendedResourceRequest(container_name="c", request_name="r", resource_name="example.com/gpu")
    status = PodExtendedResourceClaimStatus(resource_claim_name="ext", request_mappings=(mapping,))
    wanted = msgspec.structs.replace(wanted, status=PodStatus(extended_resource_claim_status=status))
    asyncio.run(world.manager.prepare(wanted))
    assert [one.name for one in asyncio.run(world.manager.run_options(wanted, first)).cdi_devices] == ["a/d=ext"]
    for other in (msgspec.structs.replace(first, name="d"), wanted.spec.containers[0]):
        assert asyncio.run(world.manager.run_options(wanted, other)).cdi_devices == ()
    asyncio.run(world.manager.unprepare(wanted))
    assert not world.prepared


def test_a_container_of_an_unknown_claim_is_not_created() -> None:
    with pytest.raises(RunOptionsError, match="unable to get claim info for ResourceClaim x in namespace ns"):
        devices(World("a"), "p", "x")


def test_the_status_of_a_pod_has_the_health_of_its_devices() -> None:
    world = World("a")
    world.client.put(claim("x", "a", pods=("p",)))
    asyncio.run(world.manager.prepare(pod("p", "x")))
    found = world.manager.resource_statuses(pod("p", "x"), "c")
    assert [(one.name, [(res.resource_id, res.health) for res in one.resources]) for one in found] == [
        ("claim:x", [("a/d=x", "Unknown")])
    ]
    assert world.manager.resource_statuses(pod("p"), "c") == ()


def test_a_claim_that_another_pod_took_over_meanwhile_is_not_unprepared() -> None:
    world = World("a", "b")
    world.client.put(claim("x", "a", pods=("p1",)))
    world.client.put(claim("y", "b", pods=("p2", "p3")))
    asyncio.run(world.manager.prepare(pod("p1", "x")))
    asyncio.run(world.manager.prepare(pod("p2", "y")))
    unprepare = world.plugins["a"].node_unprepare_resources

    async def hand_over(request: NodeUnprepareResourcesRequest) -> NodeUnprepareResourcesResponse:
        await world.manager.unprepare(pod("p2", "y"))
        await world.manager.prepare(pod("p3", "y"))
        return await unprepare(request)

    world.plugins["a"].node_unprepare_resources = hand_over  # type: ignore[method-assign]  # while p1 is released
    world.pods = {"p3": pod("p3", "y")}
    asyncio.run(world.manager.reconcile())
    assert world.prepared == {("b", "uid-y")}
