# SPDX-License-Identifier: Apache-2.0
"""Claims, volumes and classes for tests of the storage controllers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim
from kubeloop.testing import Cluster

NS = "default"
CLASS = "slow"


def volume(name: str, size: str = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    for field in ("labels", "annotations", "finalizers"):
        if field in spec:
            metadata[field] = spec.pop(field)
    fields = {"storageClassName": CLASS, "hostPath": {"path": "/tmp/x"}, **spec}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata,
        "spec": {"capacity": {"storage": size}, "accessModes": list(modes), **_given(fields)},
    }


def claim(name: str, size: str = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": NS}
    for field in ("labels", "annotations", "finalizers"):
        if field in spec:
            metadata[field] = spec.pop(field)
    fields = {"storageClassName": CLASS, **spec}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **_given(fields)},
    }


def storage_class(name: str, provisioner: str = "example.com/disks", **fields: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if fields.pop("default", False):
        metadata["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": metadata,
        "provisioner": provisioner,
        **fields,
    }


def user_of(name: str, *claims: str, node: str = "") -> dict[str, Any]:
    """A pod that uses claims."""
    volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": one}} for i, one in enumerate(claims)]
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "x"}], "volumes": volumes}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NS}, "spec": spec}


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def claim_of(cluster: Cluster, name: str) -> PersistentVolumeClaim:
    return cluster.client.get(PersistentVolumeClaim, name, NS)


def volume_of(cluster: Cluster, name: str) -> PersistentVolume:
    return cluster.client.get(PersistentVolume, name)


def phase_of_volume(cluster: Cluster, name: str) -> str:
    """Return the object, or an empty one if it does not exist."""
    try:
        return volume_of(cluster, name).status.phase
    except NotFound:
        return ""


def delete_claim(cluster: Cluster, name: str) -> None:
    """Delete a claim, as if the protection controller had released it."""
    cluster.client.patch(PersistentVolumeClaim, name, {"metadata": {"finalizers": None}}, NS)
    cluster.client.delete(PersistentVolumeClaim, name, NS)


def events_about(cluster: Cluster, about: str) -> list[str]:
    """The events about an object, as `type reason: message`."""
    events = [one for one in cluster.events() if one.involved_object.name == about]
    return [f"{one.type} {one.reason}: {one.message}" for one in events]
