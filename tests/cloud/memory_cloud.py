# SPDX-License-Identifier: Apache-2.0
"""In-memory cloud provider that records calls and fails on request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kubeloop.api.generated.core_v1 import LoadBalancerIngress, LoadBalancerStatus, Node, NodeAddress, Service
from kubeloop.cloud.config import CloudConfig
from kubeloop.cloud.context import CloudControllerContext, Wire
from kubeloop.cloud.provider import InstanceMetadata, InstanceNotFound, Route
from kubeloop.runtime.manager import Loop
from kubeloop.testing import Cluster


@dataclass
class Machine:
    """One instance."""

    metadata: InstanceMetadata
    is_shut_down: bool = False


@dataclass
class Balancer:
    """Load balancer, as it was last requested."""

    address: str
    service: Service
    hosts: tuple[str, ...]


class _FailureQueue:
    """Makes calls fail while errors are queued for them."""

    def __init__(self) -> None:
        self.errors: dict[str, list[Exception]] = {}
        self.calls: list[str] = []

    def fail(self, call: str, *errors: Exception) -> None:
        self.errors.setdefault(call, []).extend(errors)

    def count(self, call: str) -> int:
        return self.calls.count(call)

    def _asked(self, call: str) -> None:
        self.calls.append(call)
        if self.errors.get(call):
            raise self.errors[call].pop(0)


class MemoryInstances(_FailureQueue):
    def __init__(self) -> None:
        super().__init__()
        self.machines: dict[str, Machine] = {}  # by the node's name

    def add(self, name: str, **about: Any) -> Machine:
        addresses = about.pop("addresses", (address("InternalIP", "10.0.0.1"),))
        provider_id = about.pop("provider_id", f"memory://{name}")
        made = Machine(InstanceMetadata(provider_id=provider_id, addresses=addresses, **about))
        self.machines[name] = made
        return made

    async def exists(self, node: Node) -> bool:
        self._asked("exists")
        return self._find(node) is not None

    async def is_shut_down(self, node: Node) -> bool:
        self._asked("is_shut_down")
        return self._of(node).is_shut_down

    async def metadata(self, node: Node) -> InstanceMetadata | None:
        self._asked("metadata")
        return self._of(node).metadata

    def _of(self, node: Node) -> Machine:
        found = self._find(node)
        if found is None:
            raise InstanceNotFound
        return found

    def _find(self, node: Node) -> Machine | None:
        wanted = node.spec.provider_id
        by_id = (one for one in self.machines.values() if one.metadata.provider_id == wanted)
        return (next(by_id, None) if wanted.startswith("memory://") else None) or self.machines.get(node.metadata.name)


class MemoryBalancers(_FailureQueue):
    def __init__(self) -> None:
        super().__init__()
        self.balancers: dict[str, Balancer] = {}  # by the service's uid
        self.during_ensure: Callable[[], Any] | None = None  # what happens while a balancer is made

    async def status(self, cluster: str, service: Service) -> LoadBalancerStatus | None:
        self._asked("status")
        found = self.balancers.get(service.metadata.uid)
        return None if found is None else _status(found)

    async def ensure(self, cluster: str, service: Service, nodes: Sequence[Node]) -> LoadBalancerStatus:
        self._asked("ensure")
        if self.during_ensure is not None:
            during, self.during_ensure = self.during_ensure, None
            await during()
        before = self.balancers.get(service.metadata.uid)
        place = before.address if before is not None else f"192.0.2.{len(self.calls)}"
        made = self.balancers[service.metadata.uid] = Balancer(place, service, _names(nodes))
        return _status(made)

    async def update_hosts(self, cluster: str, service: Service, nodes: Sequence[Node]) -> None:
        self._asked("update_hosts")
        found = self.balancers[service.metadata.uid]
        self.balancers[service.metadata.uid] = replace(found, hosts=_names(nodes))

    async def delete(self, cluster: str, service: Service) -> None:
        self._asked("delete")
        self.balancers.pop(service.metadata.uid, None)


class MemoryRoutes(_FailureQueue):
    def __init__(self) -> None:
        super().__init__()
        self.routes: list[Route] = []

    async def list(self, cluster: str) -> Sequence[Route]:
        self._asked("list")
        return tuple(self.routes)

    async def create(self, cluster: str, hint: str, route: Route) -> None:
        self._asked("create")
        self.routes.append(replace(route, name=f"{hint}-{route.destination}", target_addresses=None))

    async def delete(self, cluster: str, route: Route) -> None:
        self._asked("delete")
        self.routes.remove(route)


@dataclass
class MemoryCloud:
    """All of it; a part that is None is not offered."""

    name: str = "memory"
    instances: MemoryInstances = field(default_factory=MemoryInstances)
    load_balancers: MemoryBalancers = field(default_factory=MemoryBalancers)
    routes: MemoryRoutes = field(default_factory=MemoryRoutes)

    async def close(self) -> None:
        """Holds nothing."""


def address(type: str, value: str) -> NodeAddress:
    return NodeAddress(type=type, address=value)


def start(cluster: Cluster, wire: Wire, cloud: Any, **config: Any) -> Loop:
    """Run one of the cloud's loops in a cluster."""
    around = cluster.context
    context = CloudControllerContext(
        around.client,
        around.informers,
        around.clock,
        around.recorder,
        cloud,
        CloudConfig(**config),
        telemetry=around.telemetry,
    )
    return cluster.start(lambda _: wire(context), may_fail=True)  # tests let the cloud fail on purpose


def _status(balancer: Balancer) -> LoadBalancerStatus:
    return LoadBalancerStatus(ingress=(LoadBalancerIngress(ip=balancer.address),))


def _names(nodes: Sequence[Node]) -> tuple[str, ...]:
    return tuple(sorted(one.metadata.name for one in nodes))
