# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of deployments: nodes that run pods, and summaries of the API state."""

from __future__ import annotations

from typing import Any, NamedTuple

from kubeloop.api.generated.apps_v1 import Deployment, ReplicaSet
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.meta.owner_references import is_controlled_by
from kubeloop.api.scalars.times import format_time
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers import deployment as deployment_loop
from kubeloop.controllers import replicaset as replicaset_loop
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.testing import Cluster

NS = "default"
BROKEN = "broken"  # image whose containers never become ready
REVISION = "deployment.kubernetes.io/revision"


def running_pods(context: ControllerContext) -> Controller[ObjectKey]:
    """Nodes, as far as deployments see them: pods become ready as soon as they are there."""
    pods = context.informers.for_resource(resource_of_class(Pod))

    async def run(key: ObjectKey) -> None:
        pod = pods.get(*key)
        if pod is None or pod.status.phase != "Pending" or any(one.image == BROKEN for one in pod.spec.containers):
            return
        now = format_time(context.clock.now())
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
        status = {"phase": "Running", "startTime": now, "conditions": [ready]}
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        await context.client.patch(Pod, key.name, patch, key.namespace, subresource="status")

    controller: Controller[ObjectKey] = Controller("nodes", run, context.clock)
    controller.watches(pods, own_key)
    return controller


def start(cluster: Cluster, *, nodes: bool = True) -> None:
    """Deployments and replica sets are seen to, and with `nodes` their pods run."""
    cluster.start(deployment_loop.wire)
    cluster.start(replicaset_loop.wire)
    if nodes:
        cluster.start(running_pods)


def settle(cluster: Cluster) -> None:
    """Small retries included."""
    cluster.advance(1)


def get(cluster: Cluster, name: str = "app") -> Deployment:
    found: Deployment = cluster.client.get(Deployment, name, NS)
    return found


def change(cluster: Cluster, patch: dict[str, Any], name: str = "app") -> Deployment:
    changed: Deployment = cluster.client.patch(Deployment, name, patch, NS)
    settle(cluster)
    return changed


def set_image(cluster: Cluster, image: str, name: str = "app") -> Deployment:
    container = {"name": "app", "image": image}
    return change(cluster, {"spec": {"template": {"spec": {"containers": [container]}}}}, name)


def sets_of(cluster: Cluster, name: str = "app") -> list[ReplicaSet]:
    """The replica sets of a deployment, oldest first."""
    uid = get(cluster, name).metadata.uid
    found = [
        one for one in cluster.client.list(ReplicaSet, NS).items if is_controlled_by(one.metadata.owner_references, uid)
    ]
    return sorted(found, key=lambda one: int(one.metadata.annotations.get(REVISION, 0)))


def sizes(cluster: Cluster, name: str = "app") -> dict[str, int | None]:
    """The wanted size of each replica set, by the image of its pods."""
    return {image_of(one): one.spec.replicas for one in sets_of(cluster, name)}


def image_of(one: ReplicaSet | Deployment) -> str:
    containers = one.spec.template.spec.containers
    assert containers is not None
    return containers[0].image


class ConditionSummary(NamedTuple):
    """A condition in short."""

    status: str
    reason: str
    message: str


def summarize_condition(cluster: Cluster, type: str, name: str = "app") -> ConditionSummary | None:
    found = find_condition(get(cluster, name).status.conditions, type)
    return None if found is None else ConditionSummary(found.status, found.reason, found.message)


def scalings(cluster: Cluster) -> list[str]:
    """Return scaling events, oldest first, without hashes in names."""
    return [one.message for one in cluster.events(reason="ScalingReplicaSet")]
