# SPDX-License-Identifier: Apache-2.0
"""Pods that ran before their agent was started: a node that has changed meanwhile may not take them any more."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Node, ResourceRequirements
from kubeloop.api.scalars.wire import Quantity
from kubeloop.kubelet.agent import NodeAgent
from kubeloop.kubelet.agent_config import NodeAgentConfig
from kubeloop.testing import Cluster, builders
from tests.kubelet.pods import get, new_agent, put, state


def begin_anew(cluster: Cluster, fleet: NodeAgent, path: str, **changes: Any) -> None:
    """Change the node while its agent is away."""
    for loop in fleet.loops:
        cluster.stop(loop)
    body: dict[str, Any] = {path: changes}
    cluster.client.patch(Node, "n1", body, subresource="status" if path == "status" else "")
    new_agent(cluster, NodeAgentConfig(count=1, event_level="all"))
    cluster.advance(2)


def asks(cpu: str) -> Any:
    return builders.container(resources=ResourceRequirements(requests={"cpu": Quantity(cpu)}))


def test_youngest_pods_are_rejected_after_a_capacity_decrease(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(1)
    for name in ("z-oldest", "m-next", "a-youngest"):
        put(cluster, name, containers=(asks("2"),))
        cluster.advance(2)
    begin_anew(cluster, fleet, "status", allocatable={"cpu": "4", "memory": "32Gi", "pods": "110"})
    phases = [get(cluster, name).status.phase for name in ("z-oldest", "m-next", "a-youngest")]
    assert phases == ["Running", "Running", "Failed"]
    status = get(cluster, "a-youngest").status
    why = "Node didn't have enough resource: cpu, requested: 2000, used: 4000, capacity: 4000"
    assert (status.reason, status.message) == ("OutOfcpu", f"Pod was rejected: {why}")
    assert state(get(cluster, "a-youngest")) == "ended 0"


@pytest.mark.parametrize(
    ("path", "changes", "reason"),
    [
        ("metadata", {"labels": {"disk": None}}, "NodeAffinity"),
        ("spec", {"taints": [{"key": "a", "effect": "NoExecute"}]}, "TaintToleration"),
    ],
)
def test_pod_that_no_longer_matches_its_node_is_rejected(
    cluster: Cluster, path: str, changes: dict[str, Any], reason: str
) -> None:
    fleet = cluster.add_nodes(1)
    cluster.client.patch(Node, "n1", {"metadata": {"labels": {"disk": "ssd"}}})
    put(cluster, node_selector={"disk": "ssd"})
    begin_anew(cluster, fleet, path, **changes)
    assert (get(cluster).status.phase, get(cluster).status.reason) == ("Failed", reason)


def test_pods_of_an_unchanged_node_are_kept(cluster: Cluster) -> None:
    fleet = cluster.add_nodes(1)
    put(cluster, containers=(asks("8"),))
    begin_anew(cluster, fleet, "metadata", labels={"some": "label"})
    assert get(cluster).status.phase == "Running"
