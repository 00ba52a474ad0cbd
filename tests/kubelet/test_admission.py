# SPDX-License-Identifier: Apache-2.0
"""Pods that a node does not take although they were bound to it."""

from __future__ import annotations

import pytest

from kubeloop.api.generated.core_v1 import ContainerPort, PodOS, ResourceRequirements, Taint
from kubeloop.api.scalars.wire import Quantity
from kubeloop.kubelet.node_status.registration import NodeShape
from kubeloop.testing import Cluster, builders
from tests.kubelet.pods import get, put


def asks(**requests: str) -> ResourceRequirements:
    return ResourceRequirements(requests={name: Quantity(text) for name, text in requests.items()})


def test_pods_requesting_more_than_available_are_rejected(cluster: Cluster) -> None:
    cluster.add_nodes(1, shape=NodeShape(cpu="2"))
    half = builders.container(resources=asks(cpu="1500m"))
    put(cluster, "first", containers=(half,))
    put(cluster, "second", containers=(half,))
    status = get(cluster, "second").status
    assert get(cluster, "first").status.phase == "Running"
    assert (status.phase, status.reason) == ("Failed", "OutOfcpu")
    why = "Node didn't have enough resource: cpu, requested: 1500, used: 1500, capacity: 2000"
    assert status.message == f"Pod was rejected: {why}"
    assert status.container_statuses == ()
    (event,) = cluster.events(reason="OutOfcpu")
    assert (event.type, event.message) == ("Warning", why)


def test_resources_of_a_terminated_pod_are_free(cluster: Cluster) -> None:
    cluster.add_nodes(1, shape=NodeShape(memory="1Gi", pods="1"))
    for name in ("first", "second"):
        put(cluster, name, restart_policy="Never", containers=(builders.container(command=("true",)),))
        assert get(cluster, name).status.phase == "Succeeded"


def test_pods_beyond_max_pods_are_rejected(cluster: Cluster) -> None:
    cluster.add_nodes(1, shape=NodeShape(pods="1"))
    put(cluster, "first")
    put(cluster, "second")
    assert get(cluster, "second").status.reason == "OutOfpods"


def test_pod_with_unmatched_node_affinity_is_rejected(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, node_selector={"disk": "ssd"})
    status = get(cluster).status
    assert status.reason == "NodeAffinity"
    assert status.message.endswith("Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector")


def test_pod_without_toleration_of_a_no_execute_taint_is_rejected(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    taints = [{"key": "a", "effect": "NoExecute"}]
    cluster.client.patch("nodes", "n1", {"spec": {"taints": taints}})
    put(cluster)
    assert get(cluster).status.reason == "TaintToleration"
    assert Taint(**taints[0]).effect == "NoExecute"


@pytest.mark.parametrize(
    ("first", "second", "taken"), [("", "", True), ("10.0.0.1", "", True), ("10.0.0.1", "10.0.0.2", False)]
)
def test_host_ports_are_exclusive(cluster: Cluster, first: str, second: str, taken: bool) -> None:
    cluster.add_nodes(1)
    for name, address in (("first", first), ("second", second)):
        port = ContainerPort(container_port=80, host_port=8080, host_ip=address)
        put(cluster, name, containers=(builders.container(ports=(port,)),))
    assert (get(cluster, "second").status.reason == "NodePorts") == taken


def test_pod_for_another_os_is_rejected(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, os=PodOS(name="windows"))
    assert get(cluster).status.reason == "PodOSNotSupported"
