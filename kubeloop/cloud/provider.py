# SPDX-License-Identifier: Apache-2.0
"""Protocol of cloud providers; each implements as much of it as it supports.

All operations are idempotent, since controllers repeat them after failures and restarts. Arguments are shared and must
not be changed. The text of an exception is shown in events, so it should describe the problem in one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kubeloop.api.generated.core_v1 import LoadBalancerStatus, Node, NodeAddress, Service


class CloudError(Exception):
    """Raised if the cloud failed an operation, which is retried later."""


class InstanceNotFound(CloudError):
    """Raised if a node has no instance; a stopped instance still exists."""

    def __init__(self, message: str = "instance not found") -> None:
        super().__init__(message)


class ImplementedElsewhere(CloudError):
    """Raised if another implementation manages this load balancer, which is then left alone."""

    def __init__(self, message: str = "implemented by alternate to cloud provider") -> None:
        super().__init__(message)


class RetryAfter(CloudError):
    """Raised to retry after a fixed time instead of with backoff."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class InstanceMetadata:
    """Metadata of a node's instance, which become fields and labels of the node."""

    provider_id: str = ""  # <provider>://<instance>, immutable
    instance_type: str = ""
    addresses: tuple[NodeAddress, ...] = ()
    zone: str = ""
    region: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)  # further ones, outside of Kubernetes' domains


@dataclass(frozen=True, slots=True)
class Route:
    """Route to the pods of a node."""

    target_node: str  # empty if the cloud does not know the instance
    destination: str  # a CIDR
    name: str = ""  # assigned by the cloud; ignored on creation
    blackhole: bool = False  # its target no longer exists
    target_addresses: tuple[NodeAddress, ...] | None = None  # None where the cloud does not route by addresses


class Instances(Protocol):
    """Machines of nodes, found by `spec.providerID` or else by other properties of the node."""

    async def exists(self, node: Node) -> bool:
        """Return True if the instance exists, running or not. Without one, an unready node is deleted."""

    async def is_shut_down(self, node: Node) -> bool:
        """Return True if the instance is stopped."""

    async def metadata(self, node: Node) -> InstanceMetadata | None:
        """Return the instance's metadata; None to leave the node unchanged for now. Raises `InstanceNotFound`."""


class LoadBalancers(Protocol):
    """External load balancers of Services, one per Service, identified by its UID."""

    async def status(self, cluster: str, service: Service) -> LoadBalancerStatus | None:
        """Return the status of a Service's load balancer; None if there is none."""

    async def ensure(self, cluster: str, service: Service, nodes: Sequence[Node]) -> LoadBalancerStatus:
        """Create or update the load balancer: ports, affinity, source ranges, hosts."""

    async def update_hosts(self, cluster: str, service: Service, nodes: Sequence[Node]) -> None:
        """Update the nodes of a load balancer whose Service is otherwise unchanged."""

    async def delete(self, cluster: str, service: Service) -> None:
        """Delete the load balancer completely; succeeds if there is none."""


class Routes(Protocol):
    """Network that needs routes to the pods of each node."""

    async def list(self, cluster: str) -> Sequence[Route]:
        """List all routes of the cluster."""

    async def create(self, cluster: str, hint: str, route: Route) -> None:
        """Create a route; the hint may become part of its name."""

    async def delete(self, cluster: str, route: Route) -> None:
        """Delete a route that `list` has returned."""


class CloudProvider(Protocol):
    """Cloud provider. Unsupported features are None: their controllers do not run."""

    @property
    def name(self) -> str:
        """Name of the provider."""

    @property
    def instances(self) -> Instances | None:
        """Instances, or None."""

    @property
    def load_balancers(self) -> LoadBalancers | None:
        """Load balancers, or None."""

    @property
    def routes(self) -> Routes | None:
        """Routes, or None."""

    async def close(self) -> None:
        """Release the resources of the process; those of the cluster are kept where possible."""
