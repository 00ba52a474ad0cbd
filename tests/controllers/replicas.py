# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of controllers that manage pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kubeloop.api.generated.apps_v1 import ReplicaSet
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.api.pods.pod import is_active
from kubeloop.api.scalars.times import format_time
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import User
from kubeloop.client import Client
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.runtime.causes.transport import CauseTransport
from kubeloop.testing import Cluster

NS = "default"


def pods_of(cluster: Cluster, owner: Any) -> list[Pod]:
    """The pods that an owner controls, oldest first."""
    found = [one for one in cluster.client.list(Pod, NS).items if _is_of(one, owner)]
    return sorted(found, key=lambda one: int(one.metadata.resource_version))


def active_pods_of(cluster: Cluster, owner: Any) -> list[Pod]:
    return [one for one in pods_of(cluster, owner) if is_active(one)]


def _is_of(pod: Pod, owner: Any) -> bool:
    manager = controller_of(pod.metadata.owner_references)
    return manager is not None and manager.uid == owner.metadata.uid


def read(cluster: Cluster, owner: Any) -> Any:
    return cluster.client.get(type(owner), owner.metadata.name, NS)


def scale(cluster: Cluster, owner: Any, replicas: int) -> None:
    cluster.client.patch(type(owner), owner.metadata.name, {"spec": {"replicas": replicas}}, NS)
    cluster.settle()


def make_ready(cluster: Cluster, *pods: Pod, ready: bool = True) -> None:
    """Mark a pod as running and ready, like a node."""
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastTransitionTime": format_time(cluster.clock.now()),
    }
    for pod in pods:
        set_status(cluster, pod, phase="Running", conditions=[condition])


def set_status(cluster: Cluster, pod: Pod, **status: Any) -> None:
    cluster.client.patch(Pod, pod.metadata.name, {"status": status}, NS, subresource="status")


def counts(owner: ReplicaSet | Any) -> tuple[int, int, int, int]:
    """Replicas, those with all labels, ready ones, available ones."""
    said = owner.status
    return said.replicas, said.fully_labeled_replicas, said.ready_replicas, said.available_replicas


def as_account(cluster: Cluster, account: str) -> ControllerContext:
    """Context of a controller that writes as its own service account."""
    groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
    user = User(f"system:serviceaccount:kube-system:{account}", groups)
    return replace(cluster.context, client=Client(CauseTransport(InProcessTransport(cluster.server, user))))
