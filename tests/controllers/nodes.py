# SPDX-License-Identifier: Apache-2.0
"""Nodes for tests of node controllers: live ones renew their leases, and all follow the test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.coordination_v1 import Lease, LeaseSpec
from kubeloop.api.generated.core_v1 import Node, NodeStatus, Pod
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.times import format_micro_time, format_time
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.testing import Cluster, metadata, node
from kubeloop.testing import pod as pod_named

LEASES = "kube-node-lease"
BEAT_SECONDS = 10.0


def configure(cluster: Cluster, **flags: Any) -> None:
    cluster.context = replace(cluster.context, config=ManagerConfig(**flags))


class SimulatedNodes:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.living: set[str] = set()

    # Nodes

    def add(self, *names: str, zone: str = "", labels: Mapping[str, str] | None = None, reports: bool = True) -> None:
        """Nodes that are ready and alive; those that never report have no conditions, and no lease."""
        for name in names:
            made = node(name)
            where = {"topology.kubernetes.io/zone": zone} if zone else {}
            meta = metadata(name, labels={**made.metadata.labels, **(labels or {}), **where})
            self.cluster.add(Node(metadata=meta, status=made.status if reports else NodeStatus()))
            if reports:
                self.report(name)
                self.living.add(name)
        self.beat()

    def report(self, name: str, **statuses: str) -> None:
        """Post the node's conditions: ready, unless given otherwise."""
        now = format_time(self.cluster.clock.now())
        said = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", **statuses}
        conditions = [
            {"type": type, "status": status, "reason": "Said", "lastHeartbeatTime": now, "lastTransitionTime": now}
            for type, status in said.items()
        ]
        self.cluster.client.patch(Node, name, {"status": {"conditions": conditions}}, subresource="status")

    def beat(self) -> None:
        """Renew the leases of all live nodes."""
        now = format_micro_time(self.cluster.clock.now())
        for name in sorted(self.living):
            try:
                self.cluster.client.patch(Lease, name, {"spec": {"renewTime": now}}, LEASES)
            except NotFound:
                meta = ObjectMeta(name=name, namespace=LEASES)
                spec = LeaseSpec(holder_identity=name, lease_duration_seconds=40, renew_time=now)  # type: ignore[arg-type]
                self.cluster.client.create(Lease(metadata=meta, spec=spec))

    def silence(self, *names: str) -> None:
        self.living -= set(names)

    def revive(self, *names: str) -> None:
        """Report immediately, like a restarted kubelet."""
        for name in names:
            self.living.add(name)
            self.report(name)
        self.beat()

    def advance(self, seconds: float) -> None:
        """Time passes, with a sign of life of each living node every ten seconds."""
        while seconds > 0:
            step = min(seconds, BEAT_SECONDS)
            self.cluster.advance(step)
            self.beat()
            self.cluster.settle()
            seconds -= step

    def node(self, name: str) -> Node:
        found: Node = self.cluster.client.get(Node, name)
        return found

    def taints(self, name: str, effect: str = "NoExecute") -> list[str]:
        """The last words of the keys of a node's taints."""
        return sorted(one.key.rpartition("/")[2] for one in self.node(name).spec.taints if one.effect == effect)

    def tainted(self, names: Iterable[str]) -> list[str]:
        """The nodes that pods are made to leave."""
        return [name for name in names if self.taints(name)]

    def condition(self, name: str, type: str = "Ready") -> Any:
        return next(one for one in self.node(name).status.conditions if one.type == type)

    # Pods

    def run_pod(self, name: str, on: str, **spec: Any) -> None:
        """A pod that runs and is ready."""
        self.cluster.add(pod_named(name, node=on, phase="Running", **spec))
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(self.cluster.clock.now())}
        self.cluster.client.patch(Pod, name, {"status": {"conditions": [ready]}}, "default", subresource="status")

    def pod(self, name: str) -> Any:
        try:
            return self.cluster.client.get(Pod, name, "default")
        except NotFound:
            return None

    def told(self, reason: str) -> list[str]:
        return [event.message for event in self.cluster.events(reason=reason)]
