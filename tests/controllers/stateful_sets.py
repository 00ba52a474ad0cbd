# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of the StatefulSet controller."""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.apps_v1 import ControllerRevision, StatefulSet
from kubeloop.api.generated.core_v1 import PersistentVolumeClaim, Pod
from kubeloop.controllers.statefulset import wire
from kubeloop.testing import Cluster
from tests.controllers.kubelet import Kubelet, image_of

NS = "default"


def start(cluster: Cluster) -> Kubelet:
    """The loop, and nodes that run what it makes."""
    kubelet = Kubelet(cluster)
    cluster.start(kubelet.wire)
    cluster.start(wire)
    return kubelet


def pods(cluster: Cluster) -> list[Pod]:
    return sorted(cluster.client.list(Pod, NS).items, key=lambda one: (len(one.metadata.name), one.metadata.name))


def names(cluster: Cluster) -> list[str]:
    return [one.metadata.name for one in pods(cluster)]


def images(cluster: Cluster) -> dict[str, str]:
    return {one.metadata.name: image_of(one) for one in pods(cluster)}


def claims(cluster: Cluster) -> dict[str, PersistentVolumeClaim]:
    return {one.metadata.name: one for one in cluster.client.list(PersistentVolumeClaim, NS).items}


def revisions(cluster: Cluster) -> dict[str, int]:
    """The revisions' numbers by name, in their order."""
    found = cluster.client.list(ControllerRevision, NS).items
    return {one.metadata.name: one.revision for one in sorted(found, key=lambda one: one.revision)}


def read(cluster: Cluster, name: str = "app") -> StatefulSet:
    return cluster.client.get(StatefulSet, name, NS)


def change(cluster: Cluster, name: str = "app", **spec: Any) -> None:
    """Change the spec, given in the words of the wire, and let everything happen."""
    cluster.client.patch(StatefulSet, name, {"spec": spec}, NS)
    cluster.settle()


def template(image: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "app", "image": f"registry.example/app:{image}"}]}}


def set_status(cluster: Cluster, pod: str, **status: Any) -> None:
    cluster.client.patch(Pod, pod, {"status": status}, NS, subresource="status")
    cluster.settle()


def make_unready(cluster: Cluster, name: str) -> None:
    set_status(cluster, name, phase="Running", conditions=[{"type": "Ready", "status": "False"}])


def make_ready(cluster: Cluster, name: str) -> None:
    set_status(cluster, name, phase="Running", conditions=[{"type": "Ready", "status": "True"}])


def delete(cluster: Cluster, pod: str) -> None:
    cluster.client.delete(Pod, pod, NS)
    cluster.settle()


def event_messages(cluster: Cluster, reason: str = "") -> list[str]:
    """The messages of events, in their order."""
    cluster.settle()
    return [one.message for one in cluster.events(reason=reason)]
