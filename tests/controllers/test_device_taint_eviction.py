# SPDX-License-Identifier: Apache-2.0
"""Tests of device taint eviction, and of the progress of taint rules."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.resource_v1 import DeviceTaintRule, ResourceSlice
from kubeloop.api.scalars.times import format_time
from kubeloop.controllers import device_taint_eviction
from kubeloop.testing import Cluster, node, pod
from tests.controllers.devices import API, DRIVER, allocate, by_name, claim
from tests.controllers.permissions import start_as


@pytest.fixture
def devices(cluster: Cluster) -> Cluster:
    """Two devices on a node; one is claimed by a pod that runs."""
    cluster.add(node("n"))
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": "n", "devices": [{"name": "g0"}, {"name": "g1"}]}
    cluster.client.create({"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": "slice"}, "spec": spec})
    start_as(cluster, "device-taint-eviction-controller", device_taint_eviction.wire)
    return cluster


def user(cluster: Cluster, name: str = "pod", device: str = "g0", **result: Any) -> None:
    claim(cluster, f"{name}-claim")
    made = cluster.add(pod(name, node="n", phase="Running", resource_claims=(by_name(f"{name}-claim"),)))
    allocate(cluster, f"{name}-claim", made, device=device, **result)
    cluster.settle()


def taint(cluster: Cluster, device: str = "g0", effect: str = "NoExecute") -> None:
    now = format_time(cluster.clock.now())
    listed: list[dict[str, Any]] = [{"name": name} for name in ("g0", "g1")]
    for one in listed:
        if one["name"] == device:
            one["taints"] = [{"key": "broken", "effect": effect, "timeAdded": now}]
    cluster.client.patch(ResourceSlice, "slice", {"spec": {"devices": listed}})
    cluster.settle()


def rule(cluster: Cluster, effect: str = "NoExecute", **selector: str) -> None:
    spec = {"deviceSelector": selector, "taint": {"key": "broken", "effect": effect}}
    cluster.client.create({"apiVersion": API, "kind": "DeviceTaintRule", "metadata": {"name": "rule"}, "spec": spec})
    cluster.settle()


def is_leaving(cluster: Cluster, name: str = "pod") -> bool:
    return any(
        one.metadata.name == name and one.metadata.deletion_timestamp is not None
        for one in cluster.client.list(Pod, "default").items
    )


def eviction_messages(cluster: Cluster) -> list[str]:
    return [one.message for one in cluster.events(reason="DeviceTaintManagerEviction")]


def tolerated(seconds: int | None) -> dict[str, Any]:
    toleration: dict[str, Any] = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
    return {"tolerations": [toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}]}


def progress(cluster: Cluster) -> tuple[str, str, str]:
    (one,) = cluster.client.get(DeviceTaintRule, "rule").status.conditions
    assert one.type == "EvictionInProgress"
    return one.status, one.reason, one.message


def test_pod_on_a_tainted_device_is_evicted_with_an_event(devices: Cluster) -> None:
    user(devices)
    user(devices, "other", "g1")
    taint(devices)
    assert is_leaving(devices)
    assert not is_leaving(devices, "other")
    said = devices.client.get(Pod, "pod", "default").status.conditions
    condition = next(one for one in said if one.type == "DisruptionTarget")
    assert condition.reason == "DeletionByDeviceTaintManager"
    assert condition.message == "Device Taint manager: deleting due to NoExecute taint"
    assert eviction_messages(devices) == ["Marking for deletion"]


@pytest.mark.parametrize("effect", ["NoSchedule", "None"])
def test_other_effects_do_not_evict(devices: Cluster, effect: str) -> None:
    user(devices)
    taint(devices, effect=effect)
    assert not is_leaving(devices)


def test_pod_is_evicted_after_toleration_seconds_unless_the_taint_is_removed(devices: Cluster) -> None:
    user(devices, **tolerated(60))
    user(devices, "other", "g1", **tolerated(60))
    taint(devices)
    devices.advance(50)
    taint(devices, "g1")
    devices.advance(20)
    assert not is_leaving(devices)
    assert eviction_messages(devices) == ["Cancelling deletion"]
    devices.advance(45)
    assert is_leaving(devices, "other")


def test_pod_with_unlimited_toleration_is_kept(devices: Cluster) -> None:
    user(devices, **tolerated(None))
    taint(devices)
    devices.advance(hours=1)
    assert not is_leaving(devices)


def test_pod_without_reservation_is_kept(devices: Cluster) -> None:
    claim(devices, "c")
    devices.add(pod("pod", node="n", phase="Running", resource_claims=(by_name("c"),)))
    allocate(devices, "c")
    taint(devices)
    assert not is_leaving(devices)


def test_old_pool_generation_is_ignored(devices: Cluster) -> None:
    user(devices)
    pool = {"name": "pool", "generation": 2, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": "n", "devices": [{"name": "g0"}]}
    devices.client.create({"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": "new"}, "spec": spec})
    taint(devices)
    assert not is_leaving(devices)


def test_taint_rule_evicts_pods_and_reports_progress(devices: Cluster) -> None:
    user(devices, **tolerated(30))
    user(devices, "other", "g1")
    rule(devices, driver=DRIVER, pool="pool", device="g0")
    assert progress(devices) == ("True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.")
    devices.advance(45)
    assert is_leaving(devices)
    assert not is_leaving(devices, "other")
    assert progress(devices) == ("False", "Completed", "1 pod evicted since starting the controller.")


def test_taint_rule_for_another_device_has_no_effect(devices: Cluster) -> None:
    user(devices)
    rule(devices, device="g9")
    assert not is_leaving(devices)
    assert progress(devices) == ("False", "NotStarted", "")


def test_taint_rule_with_effect_none_reports_a_preview(devices: Cluster) -> None:
    user(devices)
    rule(devices, effect="None", driver=DRIVER)
    assert not is_leaving(devices)
    status, reason, message = progress(devices)
    assert (status, reason) == ("False", "NoEffect")
    assert message.startswith(
        "2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the "
    )


def test_preview_of_a_taint_rule_honors_tolerations(devices: Cluster) -> None:
    user(devices, **tolerated(None))
    rule(devices, effect="None", driver=DRIVER)
    assert "0 pods would be evicted in 0 different namespaces if" in progress(devices)[2]


def test_deletion_is_retried_until_it_succeeds(cluster: Cluster) -> None:
    cluster.add(node("n"))
    cluster.start(device_taint_eviction.wire)
    user(cluster)
    cluster.faults.fail("delete", "pods", times=4)
    rule(cluster, driver=DRIVER)
    cluster.advance(10)
    assert is_leaving(cluster)
