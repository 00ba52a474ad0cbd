"""The cloud of one machine: load balancers are listeners on loopback addresses, nodes are told by a file.

service ─▶ balancers: an address, a listener a port ─▶ forwarding ─▶ endpoints, read from EndpointSlices
file ─▶ nodes                    routes ─▶ the kernel's table, where a file asks for it
"""

from __future__ import annotations

from dataclasses import dataclass

from kubeloop.cloud.local.balancers import LocalBalancers
from kubeloop.cloud.local.file import LocalFile
from kubeloop.cloud.local.kernel_routes import KernelRoutes
from kubeloop.cloud.local.nodes import LocalInstances
from kubeloop.cloud.provider_registry import Surroundings


@dataclass(frozen=True, slots=True)
class LocalCloud:
    """Offers instances and routes only where its file speaks of them: a node that no file knows must not be deleted."""

    load_balancers: LocalBalancers
    instances: LocalInstances | None
    routes: KernelRoutes | None
    name: str = "local"

    async def close(self) -> None:
        await self.load_balancers.close()


def make(around: Surroundings) -> LocalCloud:
    """Raises `UnusableProvider` for a file that says nothing usable."""
    file = LocalFile(around.config_file)
    said = file.read()
    return LocalCloud(
        LocalBalancers(around.informers, around.clock, said.load_balancers.network),
        LocalInstances(file) if said.nodes is not None else None,
        KernelRoutes(around.informers, said.routes.namespace) if said.routes is not None else None,
    )
