# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of the scheduler: ready nodes, and pods with requests."""

from __future__ import annotations

from typing import Any

from kubeloop.api.codec import to_plain
from kubeloop.api.generated.core_v1 import Node, ResourceRequirements
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.scalars.wire import Quantity
from kubeloop.testing import Cluster, container


def join(cluster: Cluster, *nodes: Node, **labels: str) -> None:
    """Add ready nodes: admission taints new ones until they are ready."""
    for one in nodes:
        cluster.add(one)
        taints = [to_plain(taint) for taint in one.spec.taints]
        change = {"metadata": {"labels": labels}, "spec": {"taints": taints}}
        cluster.client.patch("nodes", one.metadata.name, change)


def asking(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    resources = ResourceRequirements(requests={"cpu": Quantity(cpu)})
    return {"containers": (container(resources=resources),), **spec}


def unschedulable_message(cluster: Cluster, name: str) -> str:
    """Return the message of the PodScheduled condition."""
    condition = find_condition(cluster.client.get("pods", name, "default").status.conditions, "PodScheduled")
    return "" if condition is None else condition.message


def node_of(cluster: Cluster, name: str) -> str:
    return str(cluster.client.get("pods", name, "default").spec.node_name)
