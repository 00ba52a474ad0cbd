# SPDX-License-Identifier: Apache-2.0
"""Owned objects for tests of the garbage collector."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import OwnerReference
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.testing import Cluster, config_map

replace = msgspec.structs.replace


def reference(owner: Any, *, block: bool | None = None, **other: Any) -> OwnerReference:
    """Return a reference to a created object; fields can be overridden."""
    resource = resource_of_class(type(owner))
    fields = {
        "api_version": resource.group_version,
        "kind": resource.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "block_owner_deletion": block,
        **other,
    }
    return OwnerReference(**fields)


def owned(name: str, *owners: OwnerReference, namespace: str = "default", finalizers: tuple[str, ...] = ()) -> Any:
    """A config map with owners."""
    made = config_map(name, namespace=namespace, finalizers=finalizers)
    return replace(made, metadata=replace(made.metadata, owner_references=owners))


def find(cluster: Cluster, name: str, namespace: str = "default", kind: Any = ConfigMap) -> Any:
    try:
        return cluster.client.get(kind, name, namespace)
    except NotFound:
        return None


def delete(cluster: Cluster, name: str, propagation: str = "", kind: Any = ConfigMap) -> None:
    cluster.client.delete(kind, name, "default", propagation=propagation)
    cluster.settle()


def finish(cluster: Cluster, name: str, kind: Any = ConfigMap) -> None:
    """Remove all finalizers of an object."""
    finalizers = [one for one in find(cluster, name, kind=kind).metadata.finalizers if "/" not in one]
    cluster.client.patch(kind, name, {"metadata": {"finalizers": finalizers}}, "default")
    cluster.settle()
