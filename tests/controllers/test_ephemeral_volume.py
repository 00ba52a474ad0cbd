# SPDX-License-Identifier: Apache-2.0
"""Tests of claims for ephemeral volumes, and of conflicts with other claims."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import PersistentVolumeClaim, Pod
from kubeloop.controllers.ephemeral_volume import wire
from kubeloop.testing import Cluster
from tests.controllers.storage import NS, claim, claim_of, events_about, user_of


def pod(name: str, *volumes: str) -> dict[str, Any]:
    made = user_of(name)
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
    }
    made["spec"]["volumes"] = [{"name": one, "ephemeral": {"volumeClaimTemplate": template}} for one in volumes]
    return made


def test_each_ephemeral_volume_gets_a_claim_that_the_pod_owns(cluster: Cluster) -> None:
    cluster.start(wire)
    owner = cluster.add(pod("p", "data", "cache"))
    cluster.settle()
    made = claim_of(cluster, "p-data")
    assert claim_of(cluster, "p-cache").metadata.name == "p-cache"
    assert (dict(made.metadata.labels), dict(made.metadata.annotations)) == ({"a": "b"}, {"c": "d"})
    reference = made.metadata.owner_references[0]
    assert (reference.kind, reference.name, reference.uid) == ("Pod", "p", owner.metadata.uid)
    assert (reference.controller, reference.block_owner_deletion) == (True, True)
    assert made.spec.resources is not None
    assert dict(made.spec.resources.requests) == {"storage": "2Gi"}


def test_deleted_claim_is_recreated(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(pod("p", "data"))
    cluster.settle()
    before = claim_of(cluster, "p-data").metadata.uid
    cluster.client.patch(PersistentVolumeClaim, "p-data", {"metadata": {"finalizers": None}}, NS)
    cluster.client.delete(PersistentVolumeClaim, "p-data", NS)
    cluster.settle()
    assert claim_of(cluster, "p-data").metadata.uid != before


def test_claim_of_another_owner_records_an_event(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(claim("p-data"))
    cluster.add(pod("p", "data"))
    cluster.settle()
    why = "ephemeral volume data: PVC default/p-data was not created for pod default/p (pod is not owner)"
    assert events_about(cluster, "p")[0] == f"Warning FailedBinding: {why}"


def test_pod_being_deleted_gets_no_claim(cluster: Cluster) -> None:
    leaving = pod("p", "data")
    leaving["metadata"]["finalizers"] = ["test/kept"]
    cluster.add(leaving)
    cluster.client.delete(Pod, "p", NS)
    cluster.start(wire)
    with pytest.raises(NotFound):
        claim_of(cluster, "p-data")


def test_failed_claim_creation_records_an_event_and_is_retried(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.faults.fail("create", "persistentvolumeclaims")
    cluster.add(pod("p", "data"))
    cluster.advance(5)
    assert events_about(cluster, "p")[0].startswith("Warning FailedBinding: ephemeral volume data: create PVC p-data: ")
    assert claim_of(cluster, "p-data").metadata.name == "p-data"
