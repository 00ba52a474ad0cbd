# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of devices: slices, claims, and an allocator for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubeloop.api.codec import from_plain
from kubeloop.api.features.gates import parse_feature_gates
from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.generated.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from kubeloop.scheduler.dra.allocated import AllocatedDevice, AllocatedDeviceId, AllocatedState
from kubeloop.scheduler.dra.allocator import DeviceAllocator
from kubeloop.scheduler.dra.inventory import DeviceInventory

DRIVER = "gpu.example.com"
NODE = from_plain({"metadata": {"name": "n1", "labels": {"zone": "east"}}}, Node)
CLASS = from_plain({"metadata": {"name": "gpu"}}, DeviceClass)
ANYWHERE: dict[str, Any] = {"nodeName": "n1"}


def slice_of(devices: Sequence[dict[str, Any]], name: str = "s", pool: str = "p", **spec: Any) -> ResourceSlice:
    """`count` slices make up the pool; without a word about nodes it is n1's."""
    told = {"name": pool, "generation": spec.pop("generation", 1), "resourceSliceCount": spec.pop("count", 1)}
    where = {} if {"nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection"} & set(spec) else ANYWHERE
    body = {"driver": DRIVER, **where, "pool": told, "devices": list(devices), **spec}
    return from_plain({"metadata": {"name": name}, "spec": body}, ResourceSlice)


def claim_of(*requests: dict[str, Any], name: str = "c", **devices: Any) -> ResourceClaim:
    spec = {"devices": {"requests": list(requests), **devices}}
    meta = {"name": name, "namespace": "default", "uid": name}
    return from_plain({"metadata": meta, "spec": spec}, ResourceClaim)


def exactly(name: str = "r", count: int = 1, **more: Any) -> dict[str, Any]:
    """A request; 0 stands for all devices."""
    mode: dict[str, Any] = {"allocationMode": "ExactCount", "count": count} if count else {"allocationMode": "All"}
    return {"name": name, "exactly": {"deviceClassName": "gpu", **mode, **more}}


def one_of(name: str, *alternatives: dict[str, Any]) -> dict[str, Any]:
    """A request that leaves a choice; each alternative is written as for `exactly`."""
    return {"name": name, "firstAvailable": [{"name": one["name"], **one["exactly"]} for one in alternatives]}


def cel(expression: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": expression}}]


def in_use(*names: str) -> AllocatedState:
    """Return a claim of another pod for devices of pool p."""
    found = AllocatedState()
    found.add([AllocatedDevice(AllocatedDeviceId(DRIVER, "p", name), None) for name in names])
    return found


def allocator(
    slices: Sequence[ResourceSlice],
    use: AllocatedState | None = None,
    kind: DeviceClass = CLASS,
    gates: str = "",
) -> DeviceAllocator:
    return DeviceAllocator(
        DeviceInventory(slices, parse_feature_gates([gates])),
        lambda name: kind if name == "gpu" else None,
        use or AllocatedState(),
    )


def given(
    slices: Sequence[ResourceSlice],
    *claims: ResourceClaim,
    use: AllocatedState | None = None,
    kind: DeviceClass = CLASS,
    gates: str = "",
) -> list[list[str]] | None:
    """The names of the devices that each claim gets on n1."""
    found = allocator(slices, use, kind, gates).allocate(NODE, claims)
    return None if found is None else [[one.device_offer.id.device for one in each] for each in found]


def device_class(name: str = "gpu", **spec: Any) -> DeviceClass:
    return from_plain({"metadata": {"name": name}, "spec": spec}, DeviceClass)
