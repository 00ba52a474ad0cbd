# SPDX-License-Identifier: Apache-2.0
"""Routes in the kernel's table, through the command `ip`: to a node's pods via the node's address.

Our routes have a protocol number of their own, so that others are never listed or removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kubeloop.api.addresses import parse_ip
from kubeloop.api.generated.core_v1 import Node
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.cloud.provider import CloudError, Route
from kubeloop.exec import run_command
from kubeloop.runtime.informer.informer import SharedInformerFactory

PROTOCOL: Final = "171"  # not assigned to a routing daemon in the kernel's list
SECONDS: Final = 10.0
_FAMILIES: Final = {4: "-4", 6: "-6"}


class KernelRoutes:
    """Routes of our network namespace, or of a named one."""

    def __init__(self, informers: SharedInformerFactory, namespace: str = "") -> None:
        self._nodes = informers.for_resource(resource_of_class(Node))
        self._within = ("-n", namespace) if namespace else ()

    async def list(self, cluster: str) -> Sequence[Route]:
        """List our routes."""
        names = {one.address: node.metadata.name for node in self._nodes.list() for one in node.status.addresses}
        found: list[Route] = []
        for family in _FAMILIES.values():
            text = await self._ip("-j", family, "route", "show", "proto", PROTOCOL)
            rows: list[dict[str, Any]] = msgspec.json.decode(text) if text.strip() else []
            found += [_route_of(row, names) for row in rows if "dst" in row]
        return found

    async def create(self, cluster: str, hint: str, route: Route) -> None:
        """Create or replace a route."""
        family, gateway = self._gateway(route)
        await self._ip(family, "route", "replace", route.destination, "via", gateway, "proto", PROTOCOL)

    async def delete(self, cluster: str, route: Route) -> None:
        """Delete a route."""
        family = "-6" if ":" in route.destination else "-4"
        await self._ip(family, "route", "del", route.destination, "proto", PROTOCOL)

    def _gateway(self, route: Route) -> tuple[str, str]:
        version = 6 if ":" in route.destination else 4
        for one in route.target_addresses or ():
            address = parse_ip(one.address)
            if one.type == "InternalIP" and address is not None and address.version == version:
                return _FAMILIES[version], one.address
        raise CloudError(f"node {route.target_node} has no internal address for {route.destination}")

    async def _ip(self, *arguments: str) -> bytes:
        try:
            done = await run_command(("ip", *self._within, *arguments), seconds=SECONDS)
        except FileNotFoundError:
            raise CloudError("the program ip was not found") from None
        except TimeoutError:
            raise CloudError(f"ip {' '.join(arguments)}: timed out after {SECONDS:g} s") from None
        if done.exit_code:
            raise CloudError(f"ip {' '.join(arguments)}: {done.stderr.decode().strip()}")
        return done.stdout


def _route_of(row: dict[str, Any], names: dict[str, str]) -> Route:
    """Convert a row; a route via an address that no node has is a blackhole."""
    destination = str(row["dst"])
    if "/" not in destination:
        destination += "/128" if ":" in destination else "/32"
    target = names.get(str(row.get("gateway", "")), "")
    return Route(target, destination, destination, blackhole=not target)
