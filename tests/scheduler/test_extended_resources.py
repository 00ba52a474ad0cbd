# SPDX-License-Identifier: Apache-2.0
"""Extended resources that a device class stands for: pods get devices without knowing of claims."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kubeloop.api.generated.core_v1 import ResourceRequirements
from kubeloop.api.scalars.wire import Quantity
from kubeloop.controllers import resourceclaim
from kubeloop.scheduler.scheduler import wire
from kubeloop.testing import Cluster, container, node, pod
from tests.scheduler.cluster_objects import join, node_of, unschedulable_message
from tests.scheduler.device_claims import claim, devices_of, make_class, offer, using

GPU = "example.com/gpu"


@pytest.fixture
def env(cluster: Cluster) -> Cluster:
    """Cluster of two nodes, one with devices."""
    cluster.start(wire)
    join(cluster, node("bare"), node("rich"))
    offer(cluster, "rich", {"name": "a"}, {"name": "b"})
    return cluster


def asking(number: int, name: str = GPU, **spec: Any) -> dict[str, Any]:
    amounts = {name: Quantity(str(number))}
    resources = ResourceRequirements(requests=amounts, limits=amounts)
    return {"containers": (container(resources=resources),), **spec}


def made_for(env: Cluster, name: str) -> Any:
    """The claim for a pod's extended resources, if there is one."""
    owned = [
        one
        for one in env.client.list("resourceclaims", "default").items or ()
        if one.metadata.name.startswith(f"{name}-extended-resources-")
    ]
    return owned[0] if owned else None


def test_a_pod_gets_devices_for_an_extended_resource(env: Cluster) -> None:
    make_class(env, extendedResourceName=GPU)
    made = env.add(pod("web", **asking(2)))
    env.settle()
    assert node_of(env, "web") == "rich"
    found = made_for(env, "web")
    assert found.metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
    (owner,) = found.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("Pod", made.metadata.uid, True)
    (request,) = found.spec.devices.requests
    assert (request.name, request.exactly.device_class_name, request.exactly.count) == (
        "container-0-request-0", "gpu", 2,
    )  # fmt: skip
    assert [one.uid for one in found.status.reserved_for] == [made.metadata.uid]
    assert devices_of(env, found.metadata.name) == ["a", "b"]
    status = env.client.get("pods", "web", "default").status.extended_resource_claim_status
    (mapping,) = status.request_mappings
    assert (mapping.resource_name, mapping.request_name) == (GPU, "container-0-request-0")
    assert status.resource_claim_name == found.metadata.name


def test_every_class_has_an_implicit_extended_resource(env: Cluster) -> None:
    make_class(env)
    env.add(pod("web", **asking(1, "deviceclass.resource.kubernetes.io/gpu")))
    env.settle()
    assert node_of(env, "web") == "rich"
    assert made_for(env, "web") is not None


def test_a_pod_waits_for_a_class_and_for_devices(env: Cluster) -> None:
    env.add(pod("web", **asking(1)))
    env.settle()
    assert unschedulable_message(env, "web").startswith(f"0/2 nodes are available: 2 Insufficient {GPU}.")
    make_class(env, extendedResourceName=GPU)
    env.advance(seconds=3)
    assert node_of(env, "web") == "rich"
    env.add(pod("large", **asking(2)))
    env.settle()
    assert "2 cannot allocate all claims" in unschedulable_message(env, "large")


def test_device_plugin_resources_take_precedence(env: Cluster) -> None:
    make_class(env, extendedResourceName=GPU)
    env.client.patch(
        "nodes", "bare", {"status": {"capacity": {GPU: "1"}, "allocatable": {GPU: "1"}}}, subresource="status"
    )
    env.client.patch("nodes", "rich", {"spec": {"unschedulable": True}})
    for name in ("web", "other"):
        env.add(pod(name, **asking(1)))
        env.settle()
    assert (node_of(env, "web"), made_for(env, "web")) == ("bare", None)
    assert f"1 Insufficient {GPU}" in unschedulable_message(env, "other")


def test_pod_with_a_claim_gets_no_second_one_for_device_plugin_resources(env: Cluster) -> None:
    make_class(env, extendedResourceName=GPU)
    room = {"status": {"capacity": {GPU: "1"}, "allocatable": {GPU: "1"}}}
    env.client.patch("nodes", "rich", room, subresource="status")
    claim(env, "own")
    env.add(pod("web", **asking(1), **using("own")))
    env.settle()
    assert (node_of(env, "web"), devices_of(env, "own")) == ("rich", ["a"])
    assert made_for(env, "web") is None


def test_pod_gets_devices_for_claim_and_extended_resources(env: Cluster) -> None:
    make_class(env, extendedResourceName=GPU)
    claim(env, "own")
    env.add(pod("web", **asking(1), **using("own")))
    env.settle()
    assert (node_of(env, "web"), devices_of(env, "own")) == ("rich", ["a"])
    assert devices_of(env, made_for(env, "web").metadata.name) == ["b"]


def test_leftover_claim_is_deleted_and_the_pod_is_retried(env: Cluster) -> None:
    make_class(env, extendedResourceName=GPU)
    made = env.add(pod("web", **asking(1), scheduling_gates=({"name": "wait"},)))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": made.metadata.uid, "controller": True}
    meta = {
        "name": "web-extended-resources-old", "namespace": "default", "ownerReferences": [owner],
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
    }  # fmt: skip
    requests = [{"name": "container-0-request-0", "exactly": {"deviceClassName": "gpu", "count": 1}}]
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta}
    env.client.create({**body, "spec": {"devices": {"requests": requests}}})
    env.settle()
    env.client.patch("pods", "web", {"spec": {"schedulingGates": None}}, "default")
    env.settle()
    env.advance(seconds=5)
    notes = [one.note for one in env.client.list("events.events.k8s.io", "default").items]
    why = "0/2 nodes are available: 2 cannot schedule extended resource claim. deletion of ResourceClaim completed"
    assert any(one.startswith(why) for one in notes)
    assert node_of(env, "web") == "rich"
    assert made_for(env, "web").metadata.name != "web-extended-resources-old"


def test_claim_is_deleted_if_its_pod_is_not_bound(env: Cluster) -> None:
    make_class(env, extendedResourceName=GPU)
    slow = {"name": "far", "bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
    env.client.patch("resourceslices", "rich", {"spec": {"devices": [slow]}})
    env.settle()
    env.add(pod("web", **asking(1)))
    env.settle()
    first = made_for(env, "web").metadata.name
    env.advance(seconds=602)
    assert (node_of(env, "web"), unschedulable_message(env, "web")) == (
        "", f'running PreBind plugin "DynamicResources": device binding timeout: claim={first}',
    )  # fmt: skip
    env.advance(seconds=10)
    assert made_for(env, "web").metadata.name != first


def test_claim_is_deleted_when_its_pod_terminates(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    cluster.start(wire)
    cluster.start(resourceclaim.wire)
    make_class(cluster, extendedResourceName=GPU)
    offer(cluster, "n1", {"name": "a"})
    room = {"status": {"capacity": {GPU: "0"}, "allocatable": {GPU: "0"}}}
    cluster.client.patch("nodes", "n1", room, subresource="status")
    cluster.settle()
    spec = asking(1, restart_policy="Never", automount_service_account_token=False)
    spec["containers"] = (replace(spec["containers"][0], command=("sleep", "30")),)
    cluster.add(pod("web", **spec))
    cluster.advance(seconds=5)
    assert cluster.client.get("pods", "web", "default").status.phase == "Running"
    assert devices_of(cluster, made_for(cluster, "web").metadata.name) == ["a"]
    cluster.advance(seconds=40)
    assert cluster.client.get("pods", "web", "default").status.phase == "Succeeded"
    assert made_for(cluster, "web") is None
