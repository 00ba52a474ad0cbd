# SPDX-License-Identifier: Apache-2.0
"""Tests of entries of removed API servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kubeloop.api import codec
from kubeloop.api.errors import InternalError, NotFound
from kubeloop.api.generated.apiserverinternal_v1alpha1 import StorageVersion
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.controllers.storageversion_garbage_collector import wire
from kubeloop.testing import Cluster
from tests.controllers.permissions import start_as

RESOURCE = "storageversions.internal.apiserver.k8s.io"


@pytest.fixture
def plane(make_cluster: Callable[..., Cluster]) -> Cluster:
    """The kind of storage versions is an alpha, which is served on request."""
    cluster = make_cluster(
        runtime_config="internal.apiserver.k8s.io/v1alpha1=true", feature_gates="StorageVersionAPI=true"
    )
    for name in ("one", "two"):
        lease(cluster, name)
    return cluster


def lease(cluster: Cluster, name: str, identity: str = "kube-apiserver") -> None:
    meta = {"name": name, "namespace": "kube-system", "labels": {"apiserver.kubernetes.io/identity": identity}}
    cluster.client.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta})


def stored(cluster: Cluster, name: str = "apps.deployments", **encodings: str) -> None:
    kind = {"apiVersion": "internal.apiserver.k8s.io/v1alpha1", "kind": "StorageVersion"}
    cluster.client.create({**kind, "metadata": {"name": name}, "spec": {}})
    entries = [
        {"apiServerID": one, "encodingVersion": encoding, "decodableVersions": [encoding]}
        for one, encoding in encodings.items()
    ]
    common = next(iter(encodings.values())) if len(set(encodings.values())) == 1 else None
    patch = {"status": {"storageVersions": entries, "commonEncodingVersion": common}}
    cluster.client.patch(f"{RESOURCE}", name, patch, subresource="status")
    cluster.settle()


def status(cluster: Cluster, name: str = "apps.deployments") -> Any:
    try:
        return codec.to_plain(cluster.client.get(StorageVersion, name).status)
    except NotFound:
        return None


def servers(cluster: Cluster, name: str = "apps.deployments") -> list[str]:
    return [one["apiServerID"] for one in status(cluster, name)["storageVersions"]]


def test_entry_is_removed_with_the_lease_of_its_server(plane: Cluster) -> None:
    plane.start(wire)
    stored(plane, one="v1", two="v2")
    assert servers(plane) == ["one", "two"]
    plane.client.delete(Lease, "one", "kube-system")
    plane.settle()
    assert servers(plane) == ["two"]
    told = status(plane)
    assert told["commonEncodingVersion"] == "v2"
    (condition,) = told["conditions"]
    assert (condition["type"], condition["status"]) == ("AllEncodingVersionsEqual", "True")
    assert (condition["reason"], condition["message"]) == ("CommonEncodingVersionSet", "Common encoding version set")


def test_storage_version_without_entries_is_deleted(plane: Cluster) -> None:
    plane.start(wire)
    stored(plane, one="v1")
    plane.client.delete(Lease, "one", "kube-system")
    plane.settle()
    assert status(plane) is None


def test_entries_of_unknown_servers_are_removed_immediately(plane: Cluster) -> None:
    lease(plane, "other", identity="something-else")
    plane.start(wire)
    stored(plane, one="v1", absent="v1", other="v1", two="v2")
    assert servers(plane) == ["one", "two"]
    assert "commonEncodingVersion" not in status(plane)
    assert status(plane)["conditions"][0]["reason"] == "CommonEncodingVersionUnset"


def test_entries_of_servers_removed_before_the_start_are_removed(plane: Cluster) -> None:
    stored(plane, one="v1", two="v1")
    plane.client.delete(Lease, "one", "kube-system")
    plane.start(wire)
    assert servers(plane) == ["two"]


def test_unreadable_lease_is_not_treated_as_missing(plane: Cluster) -> None:
    stored(plane, one="v1", two="v1", absent="v1")
    plane.faults.fail("get", "leases", InternalError("away"), times=2)
    plane.start(wire)
    plane.advance(5)
    assert servers(plane) == ["one", "two"]


def test_controllers_role_is_sufficient(plane: Cluster) -> None:
    start_as(plane, "storage-version-garbage-collector", wire)
    stored(plane, one="v1", two="v2")
    plane.client.delete(Lease, "one", "kube-system")
    plane.settle()
    assert servers(plane) == ["two"]
    plane.client.delete(Lease, "two", "kube-system")
    plane.settle()
    assert status(plane) is None
