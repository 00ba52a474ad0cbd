# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of nodes."""

from __future__ import annotations

from typing import Any

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Container, ContainerStatus, Pod
from kubeloop.kubelet.agent import NodeAgent
from kubeloop.kubelet.agent_config import NodeAgentConfig
from kubeloop.testing import Cluster, builders

SIM = "sim.kubeloop.io/"


def put(cluster: Cluster, name: str = "pod", *, script: dict[str, str] | None = None, **spec: Any) -> Pod:
    """Create a pod on the first node, and settle."""
    spec.setdefault("node", "n1")
    made = builders.pod(name, **spec)
    annotations = {SIM + key: value for key, value in (script or {}).items()}
    pod: Pod = cluster.client.create(
        Pod(metadata=builders.metadata(name, "default", annotations=annotations), spec=made.spec)
    )
    cluster.settle()
    return pod


def new_agent(cluster: Cluster, config: NodeAgentConfig) -> NodeAgent:
    """Restart the agent without its state."""
    fleet = NodeAgent(cluster.async_client, cluster.context.informers, cluster.clock, config)
    for loop in fleet.loops:
        cluster.start(loop)
    return fleet


def get(cluster: Cluster, name: str = "pod") -> Pod:
    return cluster.client.get(Pod, name, "default")


def runs(*command: str, name: str = "app", **fields: Any) -> Container:
    return builders.container(name, command=command, **fields)


def is_gone(cluster: Cluster, name: str = "pod") -> bool:
    try:
        cluster.client.get(Pod, name, "default")
    except NotFound:
        return True
    return False


def container(pod: Pod, name: str = "app") -> ContainerStatus:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return next(one for one in statuses if one.name == name)


def condition_tuple(pod: Pod, type: str) -> tuple[str, str, str]:
    """A condition's status, reason and message."""
    found = next(one for one in pod.status.conditions if one.type == type)
    return found.status, found.reason, found.message


def state(pod: Pod, name: str = "app") -> str:
    """A container's state in a word, with the reason of a wait or the code of an end."""
    now = container(pod, name).state
    if now.running is not None:
        return "running"
    if now.terminated is not None:
        return f"ended {now.terminated.exit_code}"
    return now.waiting.reason if now.waiting is not None else "unknown"
