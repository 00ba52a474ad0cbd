# SPDX-License-Identifier: Apache-2.0
"""Devices that several claims share, and devices that have to be made ready before a pod starts."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import PodResourceClaim
from kubeloop.scheduler.scheduler import wire
from kubeloop.testing import Cluster, node, pod
from tests.scheduler.cluster_objects import join, node_of, unschedulable_message
from tests.scheduler.device_claims import DRIVER, claim, claim_named, devices_of, make_class, offer, using


@pytest.fixture
def env(cluster: Cluster) -> Cluster:
    cluster.start(wire)
    join(cluster, node("n1"), node("n2"))
    make_class(cluster)
    return cluster


def of_size(size: str) -> dict[str, Any]:
    return {"capacity": {"requests": {"memory": size}}}


def test_claims_share_a_device_up_to_its_capacity(env: Cluster) -> None:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    memory = {"memory": {"value": "10Gi", "requestPolicy": policy}}
    offer(env, "n1", {"name": "gpu", "allowMultipleAllocations": True, "capacity": memory})
    for name, size in (("first", "5500Mi"), ("second", "4Gi"), ("third", "1Gi")):
        claim(env, name, **of_size(size))
        env.settle()
        env.add(pod(name, **using(name)))
        env.settle()
    assert [node_of(env, name) for name in ("first", "second", "third")] == ["n1", "n1", ""]
    results = [claim_named(env, name).status.allocation.devices.results[0] for name in ("first", "second")]
    assert [one.consumed_capacity for one in results] == [{"memory": "6Gi"}, {"memory": "4Gi"}]
    assert len({one.share_id for one in results}) == 2
    assert "2 cannot allocate all claims" in unschedulable_message(env, "third")
    env.client.delete("pods", "second", "default")
    status = {"reservedFor": None, "allocation": None}
    env.client.patch("resourceclaims", "second", {"status": status}, "default", subresource="status")
    env.advance(seconds=5)
    assert node_of(env, "third") == "n1"


# Binding conditions.


def slow(name: str) -> dict[str, Any]:
    return {"name": name, "bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}


def set_device_condition(env: Cluster, name: str, condition: str, message: str = "") -> None:
    """Set a condition of a claim's device, like a driver."""
    (one,) = claim_named(env, name).status.allocation.devices.results
    said = {"type": condition, "status": "True", "reason": "Told", "message": message}
    said["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    device = {"driver": one.driver, "pool": one.pool, "device": one.device, "conditions": [said]}
    env.client.patch("resourceclaims", name, {"status": {"devices": [device]}}, "default", subresource="status")


def test_pod_is_bound_when_binding_conditions_are_met(env: Cluster) -> None:
    offer(env, "n1", slow("far"))
    claim(env, "one")
    env.add(pod("web", **using("one")))
    env.advance(seconds=60)
    assert (node_of(env, "web"), devices_of(env, "one")) == ("", ["far"])
    assert env.client.get("pods", "web", "default").status.nominated_node_name == "n1"
    result = claim_named(env, "one").status.allocation.devices.results[0]
    assert (result.binding_conditions, result.binding_failure_conditions) == (("attached",), ("broken",))
    events = [(one.reason, one.note) for one in env.client.list("events.events.k8s.io", "default").items]
    assert ("BindingConditionsPending", "waiting for binding conditions for device on node n1") in events
    set_device_condition(env, "one", "attached")
    env.settle()
    assert node_of(env, "web") == "n1"
    counted = env.context.telemetry.registry.render()
    labels = f'driver="{DRIVER}",profile="default-scheduler",status="success"'
    assert f"scheduler_dra_bindingconditions_allocations_total{{{labels}}} 1" in counted
    assert f"scheduler_dra_bindingconditions_wait_duration_seconds_sum{{{labels}}} 60" in counted


def test_failed_device_is_replaced(env: Cluster) -> None:
    offer(env, "n1", slow("far"))
    claim(env, "one")
    env.add(pod("web", **using("one")))
    env.settle()
    offer(env, "n2", {"name": "near"})
    env.client.patch("nodes", "n1", {"spec": {"unschedulable": True}})
    set_device_condition(env, "one", "broken", 'it said "no"')
    env.settle()
    failure = r'device binding failed: claim=one, reason=Told, message="it said \"no\""'
    assert unschedulable_message(env, "web") == f'running PreBind plugin "DynamicResources": {failure}'
    assert claim_named(env, "one").status.reserved_for == ()
    env.advance(seconds=10)
    assert (node_of(env, "web"), devices_of(env, "one")) == ("n2", ["near"])


def test_device_binding_timeout_is_enforced(env: Cluster) -> None:
    offer(env, "n1", slow("far"))
    claim(env, "one")
    env.add(pod("web", **using("one")))
    env.advance(seconds=590)
    first = claim_named(env, "one").status.allocation.allocation_timestamp
    assert unschedulable_message(env, "web") == ""
    env.advance(seconds=10)
    timeout = 'running PreBind plugin "DynamicResources": device binding timeout: claim=one'
    assert unschedulable_message(env, "web") == timeout
    env.advance(seconds=5)
    again = claim_named(env, "one").status
    assert again.allocation.allocation_timestamp > first
    assert len(again.reserved_for) == 1
    set_device_condition(env, "one", "attached")
    env.settle()
    assert node_of(env, "web") == "n1"


# Failures.


def test_failing_cel_expression_is_reported_and_retried(env: Cluster) -> None:
    offer(env, "n1", {"name": "a"})
    odd = f'device.attributes["{DRIVER}"].size > 3'
    claim(env, "one", selectors=[{"cel": {"expression": odd}}])
    env.add(pod("web", **using("one")))
    env.settle()
    message = unschedulable_message(env, "web")
    where = f"claim default/one: selector #0 on device {DRIVER}/n1/a: CEL runtime error: no such key: size"
    assert message.startswith(f'running "DynamicResources" filter plugin: {where}')
    slices = {"spec": {"devices": [{"name": "a", "attributes": {"size": {"int": 4}}}]}}
    env.client.patch("resourceslices", "n1", slices)
    env.advance(seconds=5)
    assert node_of(env, "web") == "n1"


def test_claim_of_another_pod_is_not_used(env: Cluster) -> None:
    offer(env, "n1", {"name": "a"})
    claim(env, "other")
    wanted = PodResourceClaim(name="device", resource_claim_template_name="template")
    env.add(pod("web", resource_claims=(wanted,)))
    statuses = {"status": {"resourceClaimStatuses": [{"name": "device", "resourceClaimName": "other"}]}}
    env.client.patch("pods", "web", statuses, "default", subresource="status")
    env.settle()
    assert node_of(env, "web") == ""
    assert devices_of(env, "other") == []
