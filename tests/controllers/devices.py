# SPDX-License-Identifier: Apache-2.0
"""Device classes, claims and templates for tests of loops about devices."""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.core_v1 import PodResourceClaim
from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.testing import Cluster

API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
FINALIZER = "resource.kubernetes.io/delete-protection"
REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


def template(cluster: Cluster, name: str = "template", **metadata: Any) -> None:
    meta = {"name": name, "namespace": "default"}
    spec = {"metadata": metadata, "spec": REQUESTS}
    cluster.client.create({"apiVersion": API, "kind": "ResourceClaimTemplate", "metadata": meta, "spec": spec})
    cluster.settle()


def claim(cluster: Cluster, name: str, finalizers: tuple[str, ...] = ()) -> None:
    meta = {"name": name, "namespace": "default", "finalizers": list(finalizers)}
    cluster.client.create({"apiVersion": API, "kind": "ResourceClaim", "metadata": meta, "spec": REQUESTS})


def allocate(cluster: Cluster, name: str, *pods: Any, device: str = "g0", **result: Any) -> None:
    """Allocate like a scheduler: finalizer, device, and reservation for pods."""
    meta = {"metadata": {"finalizers": [FINALIZER]}}
    cluster.client.patch(ResourceClaim, name, meta, "default")
    given = {"request": "gpu", "driver": DRIVER, "pool": "pool", "device": device, **result}
    reserved = [{"resource": "pods", "name": one.metadata.name, "uid": one.metadata.uid} for one in pods]
    status = {"allocation": {"devices": {"results": [given]}}, "reservedFor": reserved or None}
    cluster.client.patch(ResourceClaim, name, {"status": status}, "default", subresource="status")


def from_template(name: str = "gpu", source: str = "template") -> PodResourceClaim:
    return PodResourceClaim(name=name, resource_claim_template_name=source)


def by_name(claim_name: str, name: str = "gpu") -> PodResourceClaim:
    return PodResourceClaim(name=name, resource_claim_name=claim_name)
