# SPDX-License-Identifier: Apache-2.0
"""Local provider: load balancers are listeners on loopback addresses, nodes are listed in a file.

service ─▶ balancers: an address, a listener per port ─▶ forwarding ─▶ endpoints, read from EndpointSlices
file ─▶ nodes                    routes ─▶ the kernel's table, if the file enables it
"""

from __future__ import annotations

from dataclasses import dataclass

from kubeloop.cloud.local.config_file import LocalFile, LocalInstances
from kubeloop.cloud.local.kernel_routes import KernelRoutes
from kubeloop.cloud.local.load_balancers import LocalLoadBalancers
from kubeloop.cloud.provider_registry import ProviderDependencies


@dataclass(frozen=True, slots=True)
class LocalCloud:
    """Provider that offers instances and routes only if its file has them, so that unlisted nodes are not deleted."""

    load_balancers: LocalLoadBalancers
    instances: LocalInstances | None
    routes: KernelRoutes | None
    name: str = "local"

    async def close(self) -> None:
        """Close all listeners."""
        await self.load_balancers.close()


def make(around: ProviderDependencies) -> LocalCloud:
    """Build the provider. Raises `InvalidProvider` for an invalid configuration file."""
    file = LocalFile(around.config_file)
    said = file.read()
    return LocalCloud(
        LocalLoadBalancers(around.informers, around.clock, said.load_balancers.network),
        LocalInstances(file) if said.nodes is not None else None,
        KernelRoutes(around.informers, said.routes.namespace) if said.routes is not None else None,
    )
