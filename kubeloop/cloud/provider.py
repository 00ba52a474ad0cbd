"""What a cloud has to be able to do: a small protocol, of which a provider offers as much as it can.

Everything is idempotent, because loops ask again after failures and restarts. What a provider is handed is shared and
must not be changed. An exception's text reaches people in events, so it should say what went wrong in one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kubeloop.api.generated.core_v1 import LoadBalancerStatus, Node, NodeAddress, Service


class CloudError(Exception):
    """The cloud could not do what was asked; it is asked again later."""


class InstanceNotFound(CloudError):
    """There is no instance for a node. Not for one that is stopped: that one still exists."""

    def __init__(self, message: str = "instance not found") -> None:
        super().__init__(message)


class ImplementedElsewhere(CloudError):
    """Somebody else takes care of this load balancer; it is left alone."""

    def __init__(self, message: str = "implemented by alternate to cloud provider") -> None:
        super().__init__(message)


class RetryAfter(CloudError):
    """Not yet: ask again after a fixed time instead of longer and longer ones."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class InstanceMetadata:
    """What a node's instance is; becomes fields and labels of the node."""

    provider_id: str = ""  # <provider>://<instance>, in a form that never changes
    instance_type: str = ""
    addresses: tuple[NodeAddress, ...] = ()
    zone: str = ""
    region: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)  # more of them, outside of Kubernetes' own names


@dataclass(frozen=True, slots=True)
class Route:
    """The way to the pods of a node."""

    target_node: str  # empty if the cloud does not know the instance
    destination: str  # a CIDR
    name: str = ""  # the cloud's; ignored for one to be made
    blackhole: bool = False  # leads to where nobody is any longer
    target_addresses: tuple[NodeAddress, ...] | None = None  # None where the cloud does not route by addresses


class Instances(Protocol):
    """The machines that nodes run on. Found by `spec.providerID` if it is set, else by what else the node says."""

    async def exists(self, node: Node) -> bool:
        """Whether there is such an instance, running or not. A node that is not ready goes when there is none."""

    async def is_shut_down(self, node: Node) -> bool:
        """Whether the instance is stopped."""

    async def metadata(self, node: Node) -> InstanceMetadata | None:
        """What the instance is; None to leave the node as it is for now. Raises `InstanceNotFound`."""


class LoadBalancers(Protocol):
    """Addresses outside of the cluster that lead to services. One balancer a service, told apart by its uid."""

    async def status(self, cluster: str, service: Service) -> LoadBalancerStatus | None:
        """Where a service's balancer is reached; None if there is none."""

    async def ensure(self, cluster: str, service: Service, nodes: Sequence[Node]) -> LoadBalancerStatus:
        """Make the balancer, or make it what the service says: ports, affinity, source ranges, hosts."""

    async def update_hosts(self, cluster: str, service: Service, nodes: Sequence[Node]) -> None:
        """Direct a balancer to these nodes; nothing else of the service has changed."""

    async def delete(self, cluster: str, service: Service) -> None:
        """See to it that nothing is left of the balancer; well done if there was nothing."""


class Routes(Protocol):
    """A network that has to be told which node has which pods."""

    async def list(self, cluster: str) -> Sequence[Route]:
        """All routes of the cluster."""

    async def create(self, cluster: str, hint: str, route: Route) -> None:
        """Make a route; the hint may become part of its name."""

    async def delete(self, cluster: str, route: Route) -> None:
        """Remove a route that `list` has told of."""


class Provider(Protocol):
    """A cloud. What it does not offer is None: the loops that need it do not run."""

    @property
    def name(self) -> str: ...
    @property
    def instances(self) -> Instances | None: ...
    @property
    def load_balancers(self) -> LoadBalancers | None: ...
    @property
    def routes(self) -> Routes | None: ...

    async def close(self) -> None:
        """Let go of what the process holds; what was made for the cluster stays where it can."""
