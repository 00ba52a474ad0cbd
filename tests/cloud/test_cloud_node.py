# SPDX-License-Identifier: Apache-2.0
"""Nodes that wait for their cloud are initialized, and their addresses followed."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Node, Taint
from kubeloop.cloud.cloud_node import wire
from kubeloop.cloud.context import ControllerUnsupported
from kubeloop.cloud.node_facts import PROVIDED_IP
from kubeloop.cloud.provider import CloudError, InstanceMetadata
from kubeloop.cloud.taints import UNINITIALIZED
from kubeloop.testing import Cluster, node
from tests.cloud.memory_cloud import Machine, MemoryCloud, address, start

WAITING = Taint(key=UNINITIALIZED, value="true", effect="NoSchedule")
OTHER = Taint(key="example.com/other", effect="NoSchedule")
NOT_READY = "node.kubernetes.io/not-ready"
INTERNAL = address("InternalIP", "10.0.0.1")
EXTERNAL = address("ExternalIP", "192.0.2.1")
HOST = address("Hostname", "n1.example")


def waiting(name: str = "n1", **spec: Any) -> Node:
    return node(name, **{"taints": (WAITING, OTHER), **spec})


def read(cluster: Cluster, name: str = "n1") -> Node:
    found: Node = cluster.client.get(Node, name)
    return found


def taints(cluster: Cluster) -> tuple[Taint, ...]:
    """Return the taints without the one that admission adds to every new node."""
    return tuple(one for one in read(cluster).spec.taints if one.key != NOT_READY)


def patch_addresses(cluster: Cluster, *addresses: Any) -> None:
    status = {"addresses": [{"type": one.type, "address": one.address} for one in addresses]}
    cluster.client.patch(Node, "n1", {"status": status}, subresource="status")


def test_uninitialized_node_gets_cloud_metadata_and_loses_its_taint(cluster: Cluster) -> None:
    cloud = MemoryCloud()
    cloud.instances.add("n1", instance_type="large", zone="z1", region="r", addresses=(INTERNAL, EXTERNAL))
    start(cluster, wire, cloud)
    cluster.add(waiting())
    cluster.settle()
    found = read(cluster)
    assert taints(cluster) == (OTHER,)
    assert found.spec.provider_id == "memory://n1"
    assert found.status.addresses == (INTERNAL, EXTERNAL)
    labels = found.metadata.labels
    assert labels["node.kubernetes.io/instance-type"] == labels["beta.kubernetes.io/instance-type"] == "large"
    assert labels["topology.kubernetes.io/zone"] == labels["failure-domain.beta.kubernetes.io/zone"] == "z1"
    assert labels["topology.kubernetes.io/region"] == labels["failure-domain.beta.kubernetes.io/region"] == "r"
    (event,) = cluster.events(reason="Synced")
    assert (event.message, event.source.component) == ("Node synced successfully", "cloud-node-controller")


def test_node_without_the_taint_is_not_initialized(cluster: Cluster) -> None:
    cloud = MemoryCloud()
    cloud.instances.add("n1", instance_type="large")
    start(cluster, wire, cloud)
    cluster.add(node("n1"))
    cluster.settle()
    assert read(cluster).spec.provider_id == ""
    assert "node.kubernetes.io/instance-type" not in read(cluster).metadata.labels


def test_initialization_waits_for_the_instance(cluster: Cluster) -> None:
    cloud = MemoryCloud()
    start(cluster, wire, cloud)
    cluster.add(waiting())
    cluster.advance(seconds=1)
    assert WAITING in read(cluster).spec.taints
    cloud.instances.add("n1")
    cluster.advance(minutes=5)
    assert taints(cluster) == (OTHER,)


def test_instance_without_provider_id_does_not_match_node_without_one(cluster: Cluster) -> None:
    cloud = MemoryCloud()
    cloud.instances.add("n1", provider_id="")
    start(cluster, wire, cloud)
    cluster.add(waiting())
    cluster.advance(seconds=1)
    assert WAITING in read(cluster).spec.taints


def test_existing_provider_id_is_kept(cluster: Cluster) -> None:
    cloud = MemoryCloud()
    cloud.instances.add("n1", provider_id="")
    start(cluster, wire, cloud)
    cluster.add(waiting(provider_id="kubelet://n1"))
    cluster.settle()
    assert read(cluster).spec.provider_id == "kubelet://n1"
    assert taints(cluster) == (OTHER,)


def test_additional_labels_do_not_override_or_use_reserved_names(cluster: Cluster) -> None:
    cloud = MemoryCloud()
    more = {"example.com/rack": "7", "kubernetes.io/hostname": "x", "sub.k8s.io/a": "b", "mine": "cloud"}
    cloud.instances.add("n1", labels=more)
    start(cluster, wire, cloud)
    cluster.add(waiting())
    cluster.client.patch(Node, "n1", {"metadata": {"labels": {"mine": "before"}}})
    cluster.settle()
    labels = read(cluster).metadata.labels
    assert (labels["example.com/rack"], labels["kubernetes.io/hostname"]) == ("7", "n1")
    assert "sub.k8s.io/a" not in labels


def test_conflict_is_retried_with_the_latest_object(cluster: Cluster) -> None:
    cloud = MemoryCloud()
    cloud.instances.add("n1")
    cluster.faults.conflict("patch", "nodes", times=3)
    start(cluster, wire, cloud)
    cluster.add(waiting())
    cluster.advance(seconds=5)
    assert taints(cluster) == (OTHER,)


def test_node_addresses_are_refreshed_periodically(cluster: Cluster) -> None:
    cloud = MemoryCloud()
    machine = cloud.instances.add("n1")
    start(cluster, wire, cloud, node_status_update_frequency=60.0)
    cluster.add(node("n1"))
    cluster.advance(61)
    assert read(cluster).status.addresses == (INTERNAL,)
    machine.metadata = InstanceMetadata("memory://n1", addresses=(EXTERNAL,))
    cluster.advance(50)
    assert read(cluster).status.addresses == (INTERNAL,)
    cluster.advance(11)
    assert read(cluster).status.addresses == (EXTERNAL,)


def test_node_hostname_is_kept_if_the_cloud_has_none(cluster: Cluster) -> None:
    cloud = MemoryCloud()
    cloud.instances.add("n1")
    cluster.add(node("n1"))
    patch_addresses(cluster, HOST)
    start(cluster, wire, cloud)
    assert read(cluster).status.addresses == (INTERNAL, HOST)


def test_failing_node_does_not_block_others(cluster: Cluster) -> None:
    cloud = MemoryCloud()
    cloud.instances.add("n1")
    cloud.instances.add("n2")
    cloud.instances.fail("metadata", CloudError("busy"))
    cluster.add(node("n1"), node("n2"))
    start(cluster, wire, cloud)
    assert [bool(read(cluster, name).status.addresses) for name in ("n1", "n2")] == [False, True]
    cluster.advance(minutes=6)
    assert read(cluster).status.addresses == (INTERNAL,)


def test_preferred_address_is_first_and_the_only_one_of_its_type(cluster: Cluster) -> None:
    cloud = MemoryCloud()
    second = address("InternalIP", "10.0.0.2")
    cloud.instances.machines["n1"] = Machine(InstanceMetadata("memory://n1", "", (INTERNAL, second, EXTERNAL)))
    start(cluster, wire, cloud)
    made = waiting()
    made.metadata.annotations[PROVIDED_IP] = "10.0.0.2"  # type: ignore[index]
    cluster.add(made)
    cluster.settle()
    assert read(cluster).status.addresses == (second, EXTERNAL)


@pytest.mark.parametrize("preferred", ["10.9.9.9", "nonsense"])
def test_initialization_waits_for_the_preferred_address(cluster: Cluster, preferred: str) -> None:
    cloud = MemoryCloud()
    cloud.instances.add("n1")
    start(cluster, wire, cloud)
    made = waiting()
    made.metadata.annotations[PROVIDED_IP] = preferred  # type: ignore[index]
    cluster.add(made)
    cluster.advance(seconds=1)
    assert WAITING in read(cluster).spec.taints


def test_new_labels_are_reconciled_from_old_ones(cluster: Cluster) -> None:
    start(cluster, wire, MemoryCloud())
    cluster.add(node("n1"))
    labels = {"failure-domain.beta.kubernetes.io/zone": "a", "topology.kubernetes.io/zone": "b"}
    cluster.client.patch(Node, "n1", {"metadata": {"labels": labels}})
    cluster.settle()
    assert read(cluster).metadata.labels["topology.kubernetes.io/zone"] == "a"


def test_controller_is_skipped_without_instances_support(cluster: Cluster) -> None:
    with pytest.raises(ControllerUnsupported):
        start(cluster, wire, MemoryCloud(instances=None))  # type: ignore[arg-type]
