# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of the DaemonSet controller."""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.apps_v1 import (
    ControllerRevision,
    DaemonSet,
    DaemonSetUpdateStrategy,
    RollingUpdateDaemonSet,
)
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.controllers.daemonset import wire
from kubeloop.controllers.daemonset.nodes import target_node_of
from kubeloop.testing import Cluster, node
from tests.controllers.kubelet import Kubelet, image_of

NS = "default"


def start(cluster: Cluster, *nodes: str) -> Kubelet:
    """The loop, and nodes that run what it makes."""
    kubelet = Kubelet(cluster)
    for name in nodes:
        add_node(cluster, name)
    cluster.start(kubelet.wire)
    cluster.start(wire)
    return kubelet


def add_node(cluster: Cluster, name: str) -> None:
    """Add a ready node: the server taints every new node until it is ready."""
    cluster.add(node(name))
    cluster.client.patch(Node, name, {"spec": {"taints": None}})


def pods(cluster: Cluster) -> list[Pod]:
    return list(cluster.client.list(Pod, NS).items)


def by_node(cluster: Cluster) -> dict[str, list[str]]:
    """The images of pods that stay, by node, sorted."""
    found: dict[str, list[str]] = {}
    for one in pods(cluster):
        if one.metadata.deletion_timestamp is None:
            found.setdefault(target_node_of(one), []).append(image_of(one))
    return {name: sorted(found[name]) for name in sorted(found)}


def read(cluster: Cluster, name: str = "app") -> DaemonSet:
    return cluster.client.get(DaemonSet, name, NS)


def counts(found: DaemonSet) -> tuple[int, int, int, int, int, int, int]:
    """Desired, current, misplaced, ready, updated, available, unavailable."""
    said = found.status
    return (
        said.desired_number_scheduled,
        said.current_number_scheduled,
        said.number_misscheduled,
        said.number_ready,
        said.updated_number_scheduled,
        said.number_available,
        said.number_unavailable,
    )


def change(cluster: Cluster, name: str = "app", **spec: Any) -> None:
    """Change the spec, given in the words of the wire, and let everything happen."""
    cluster.client.patch(DaemonSet, name, {"spec": spec}, NS)
    cluster.settle()


def template(image: str, **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "app", "image": f"registry.example/app:{image}"}], **spec}}


def change_node(cluster: Cluster, name: str, **patch: Any) -> None:
    cluster.client.patch(Node, name, patch)
    cluster.settle()


def taint(cluster: Cluster, name: str, effect: str | None, key: str = "dedicated") -> None:
    """Set one taint, or none."""
    taints = [{"key": key, "effect": effect}] if effect is not None else None
    change_node(cluster, name, spec={"taints": taints})


def revisions(cluster: Cluster) -> dict[str, int]:
    """The revisions' numbers by name, in their order."""
    found = cluster.client.list(ControllerRevision, NS).items
    return {one.metadata.name: one.revision for one in sorted(found, key=lambda one: one.revision)}


def event_messages(cluster: Cluster, reason: str = "") -> list[str]:
    cluster.settle()
    return [one.message for one in cluster.events(reason=reason)]


def rolling(max_unavailable: int | str | None = None, max_surge: int | str | None = None) -> DaemonSetUpdateStrategy:
    limits = RollingUpdateDaemonSet(max_unavailable=max_unavailable, max_surge=max_surge)
    return DaemonSetUpdateStrategy(type="RollingUpdate", rolling_update=limits)
