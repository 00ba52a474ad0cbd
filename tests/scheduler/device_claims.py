# SPDX-License-Identifier: Apache-2.0
"""Helpers for behavior tests of devices."""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.core_v1 import PodResourceClaim
from kubeloop.testing import Cluster

API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


def make_class(cluster: Cluster, name: str = "gpu", **spec: Any) -> None:
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    body = {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name}}
    cluster.client.create({**body, "spec": {"selectors": selectors, **spec}})


def offer(cluster: Cluster, node: str, *devices: dict[str, Any]) -> None:
    """Devices of one node, as a pool of its name."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": list(devices)}
    cluster.client.create({"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec})


def claim(cluster: Cluster, name: str, **exactly: Any) -> None:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu", **exactly}}]
    meta = {"name": name, "namespace": "default"}
    body = {"apiVersion": API, "kind": "ResourceClaim", "metadata": meta, "spec": {"devices": {"requests": requests}}}
    cluster.client.create(body)


def using(name: str) -> dict[str, Any]:
    return {"resource_claims": (PodResourceClaim(name="device", resource_claim_name=name),)}


def claim_named(cluster: Cluster, name: str) -> Any:
    return cluster.client.get("resourceclaims", name, "default")


def devices_of(cluster: Cluster, name: str) -> list[str]:
    allocation = claim_named(cluster, name).status.allocation
    return [] if allocation is None else [one.device for one in allocation.devices.results]
