# SPDX-License-Identifier: Apache-2.0
"""Pods get devices with their node."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import PodResourceClaim
from kubeloop.scheduler.scheduler import wire
from kubeloop.testing import Cluster, node, pod
from tests.scheduler.cluster_objects import join, node_of, unschedulable_message

API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


@pytest.fixture
def gpus(cluster: Cluster) -> Cluster:
    """Three nodes; one has two small devices, one a large one."""
    cluster.start(wire)
    join(cluster, node("none"), node("small"), node("large"))
    expression = f'device.driver == "{DRIVER}"'
    cluster.client.create(
        {
            "apiVersion": API,
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        }
    )
    offer(cluster, "small", {"s0": 8, "s1": 8})
    offer(cluster, "large", {"l0": 80})
    return cluster


def offer(cluster: Cluster, name: str, devices: dict[str, int]) -> None:
    listed = [{"name": device, "attributes": {"memory": {"int": size}}} for device, size in devices.items()]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": name, "devices": listed}
    cluster.client.create({"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec})


def claim(cluster: Cluster, name: str, count: int = 1, expression: str = "", **devices: Any) -> None:
    exactly: dict[str, Any] = {"deviceClassName": "gpu", "count": count}
    if expression:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], **devices}}
    meta = {"name": name, "namespace": "default"}
    cluster.client.create({"apiVersion": API, "kind": "ResourceClaim", "metadata": meta, "spec": spec})


def using(name: str) -> dict[str, Any]:
    return {"resource_claims": (PodResourceClaim(name="device", resource_claim_name=name),)}


def devices_of(cluster: Cluster, name: str) -> list[str]:
    found = cluster.client.get("resourceclaims", name, "default")
    return [one.device for one in found.status.allocation.devices.results]


def test_a_claim_gets_a_device_and_the_pod_its_node(gpus: Cluster) -> None:
    claim(gpus, "big", expression=f'device.attributes["{DRIVER}"].memory > 40')
    made = gpus.add(pod("web", **using("big")))
    gpus.settle()
    assert node_of(gpus, "web") == "large"
    assert devices_of(gpus, "big") == ["l0"]
    found = gpus.client.get("resourceclaims", "big", "default")
    assert [one.uid for one in found.status.reserved_for] == [made.metadata.uid]
    assert found.metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
    (term,) = found.status.allocation.node_selector.node_selector_terms
    assert term.match_fields[0].values == ("large",)


def test_several_devices_of_one_node(gpus: Cluster) -> None:
    claim(gpus, "two", count=2)
    gpus.add(pod("web", **using("two")))
    gpus.settle()
    assert node_of(gpus, "web") == "small"
    assert sorted(devices_of(gpus, "two")) == ["s0", "s1"]


def test_device_is_not_allocated_twice(gpus: Cluster) -> None:
    for number in range(4):
        claim(gpus, f"claim-{number}")
        gpus.add(pod(f"web-{number}", **using(f"claim-{number}")))
    gpus.settle()
    placed = [node_of(gpus, f"web-{number}") for number in range(4)]
    assert sorted(placed) == ["", "large", "small", "small"]
    late = placed.index("")
    assert "3 cannot allocate all claims" in unschedulable_message(gpus, f"web-{late}")
    offer(gpus, "none", {"n0": 8})
    gpus.settle()
    gpus.advance(seconds=2)
    assert node_of(gpus, f"web-{late}") == "none"


def test_a_pod_waits_for_its_claim(gpus: Cluster) -> None:
    gpus.add(pod("web", **using("later")))
    gpus.settle()
    assert node_of(gpus, "web") == ""
    claim(gpus, "later")
    gpus.settle()
    assert node_of(gpus, "web") in ("small", "large")


def test_a_second_pod_of_a_claim_goes_to_the_same_node(gpus: Cluster) -> None:
    claim(gpus, "shared")
    gpus.add(pod("first", **using("shared")))
    gpus.settle()
    gpus.add(pod("second", **using("shared")))
    gpus.settle()
    assert node_of(gpus, "second") == node_of(gpus, "first") != ""
    assert len(gpus.client.get("resourceclaims", "shared", "default").status.reserved_for) == 2


def test_missing_device_class_is_reported(gpus: Cluster) -> None:
    claim(gpus, "odd")
    gpus.client.delete("deviceclasses", "gpu")
    gpus.settle()
    gpus.add(pod("web", **using("odd")))
    gpus.settle()
    assert unschedulable_message(gpus, "web").startswith(
        "0/3 nodes are available: request gpu: device class gpu does not exist."
    )


def test_taint_rule_blocks_a_device_until_removed(gpus: Cluster) -> None:
    rule = {"apiVersion": API, "kind": "DeviceTaintRule", "metadata": {"name": "sick"}}
    taint = {"key": "sick", "effect": "NoSchedule"}
    gpus.client.create({**rule, "spec": {"deviceSelector": {"pool": "large"}, "taint": taint}})
    gpus.settle()
    claim(gpus, "one", expression=f'device.attributes["{DRIVER}"].memory > 50')
    gpus.add(pod("web", **using("one")))
    gpus.settle()
    assert "3 cannot allocate all claims" in unschedulable_message(gpus, "web")
    gpus.client.delete("devicetaintrules", "sick")
    gpus.advance(seconds=3)
    assert node_of(gpus, "web") == "large"


def test_first_available_alternative_is_preferred(gpus: Cluster) -> None:
    def sized(name: str, size: int) -> dict[str, Any]:
        expression = f'device.attributes["{DRIVER}"].memory == {size}'
        return {"name": name, "deviceClassName": "gpu", "selectors": [{"cel": {"expression": expression}}]}

    requests = [{"name": "any", "firstAvailable": [sized("big", 80), sized("small", 8)]}]
    meta = {"name": "one", "namespace": "default"}
    body = {"apiVersion": API, "kind": "ResourceClaim", "metadata": meta, "spec": {"devices": {"requests": requests}}}
    gpus.client.create(body)
    gpus.add(pod("web", **using("one")))
    gpus.settle()
    assert (node_of(gpus, "web"), devices_of(gpus, "one")) == ("large", ["l0"])


def test_devices_allocated_on_another_node_are_deallocated(gpus: Cluster) -> None:
    claim(gpus, "one")
    gpus.add(pod("first", **using("one"), node_selector={"kubernetes.io/hostname": "nowhere"}))
    allocation = {
        "devices": {"results": [{"request": "gpu", "driver": DRIVER, "pool": "large", "device": "l0"}]},
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["large"]}]}]
        },
    }
    gpus.client.patch("resourceclaims", "one", {"status": {"allocation": allocation}}, "default", subresource="status")
    gpus.client.patch("nodes", "large", {"spec": {"unschedulable": True}})
    gpus.add(pod("web", **using("one")))
    gpus.advance(seconds=5)
    assert (node_of(gpus, "web"), devices_of(gpus, "one")) == ("small", ["s0"])
