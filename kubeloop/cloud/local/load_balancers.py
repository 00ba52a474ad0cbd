# SPDX-License-Identifier: Apache-2.0
"""Load balancers as listeners on loopback addresses, which forward connections to endpoints.

They live as long as the process: after a restart the controller ensures all of them again, and each gets the address
that is in its Service's status.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address, ip_network

from kubeloop.api.generated.core_v1 import (
    LoadBalancerIngress,
    LoadBalancerStatus,
    Node,
    PortStatus,
    Service,
    ServicePort,
)
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.cloud.local.backends import ServiceEndpoints, SessionAffinityTable, affinity_seconds
from kubeloop.cloud.local.forwarder import BackendChoice, Forwarder
from kubeloop.cloud.provider import CloudError
from kubeloop.cloud.source_ranges import source_ranges
from kubeloop.runtime.informer.informer import SharedInformerFactory

UNSUPPORTED = "UnsupportedProtocol"


class LocalLoadBalancer:
    """Listeners of one Service."""

    def __init__(self, address: str, endpoints: ServiceEndpoints, clock: Clock) -> None:
        self.address = address
        self._endpoints = endpoints
        self._affinity = SessionAffinityTable(clock)
        self._open: dict[int, Forwarder] = {}
        self._service = Service()
        self._ranges: tuple[IPv4Network | IPv6Network, ...] = ()

    async def update(self, service: Service) -> None:
        """Listen on the Service's ports, and apply its current settings to new connections."""
        self._ranges = tuple(ip_network(one, strict=False) for one in source_ranges(service))
        self._service = service
        wanted = {one.port: one for one in service.spec.ports if is_supported(one)}
        for number in [one for one in self._open if one not in wanted]:
            await self._open.pop(number).close()
        for number in wanted:
            if number not in self._open:
                forwarder = Forwarder(partial(self._choose, number))
                try:
                    await forwarder.open(self.address, number)
                except OSError as error:
                    raise CloudError(f"cannot listen on {self.address}:{number}: {error.strerror or error}") from None
                self._open[number] = forwarder

    async def close(self) -> None:
        """Close all listeners."""
        for one in self._open.values():
            await one.close()
        self._open.clear()

    def status(self) -> LoadBalancerStatus:
        """Return the status with the address; unsupported ports have an error."""
        ports = self._service.spec.ports
        told: tuple[PortStatus, ...] = ()
        if not all(map(is_supported, ports)):
            told = tuple(
                PortStatus(port=one.port, protocol=one.protocol, error=None if is_supported(one) else UNSUPPORTED)
                for one in ports
            )
        return LoadBalancerStatus(ingress=(LoadBalancerIngress(ip=self.address, ip_mode="Proxy", ports=told),))

    def _choose(self, number: int, client: str) -> BackendChoice:
        port = next((one for one in self._service.spec.ports if one.port == number and is_supported(one)), None)
        if port is None or not any(ip_address(client) in one for one in self._ranges):
            return BackendChoice((), lambda _: None)
        found = self._endpoints.of(self._service, port)
        order = self._affinity.order(client, port.name, found, affinity_seconds(self._service))
        return BackendChoice(order, partial(self._affinity.record, client, port.name))


class LocalLoadBalancers:
    """Load balancers of all Services; they don't depend on nodes, since they use endpoints."""

    def __init__(self, informers: SharedInformerFactory, clock: Clock, network: str) -> None:
        self._clock = clock
        self._network = IPv4Network(network)
        self._endpoints = ServiceEndpoints(informers)
        self._services = informers.for_resource(resource_of_class(Service))
        self._balancers: dict[str, LocalLoadBalancer] = {}  # by the Service's UID

    async def status(self, cluster: str, service: Service) -> LoadBalancerStatus | None:
        """Return the status of the Service's load balancer, or None."""
        found = self._balancers.get(service.metadata.uid)
        return None if found is None else found.status()

    async def ensure(self, cluster: str, service: Service, nodes: Sequence[Node]) -> LoadBalancerStatus:
        """Open or update the listeners; raises CloudError if no port is supported."""
        if not any(map(is_supported, service.spec.ports)):
            raise CloudError("only TCP ports are supported")
        uid, wanted = service.metadata.uid, service.spec.load_balancer_ip
        found = self._balancers.get(uid)
        if found is None or (wanted and found.address != wanted):
            address = choose_address(service, self._taken_by_others(uid), self._network)
            await self._remove(uid)
            found = self._balancers[uid] = LocalLoadBalancer(address, self._endpoints, self._clock)
        await found.update(service)
        return found.status()

    async def update_hosts(self, cluster: str, service: Service, nodes: Sequence[Node]) -> None:
        """Do nothing, since endpoints are looked up for each connection."""

    async def delete(self, cluster: str, service: Service) -> None:
        """Close the Service's listeners."""
        await self._remove(service.metadata.uid)

    async def close(self) -> None:
        """Close all listeners."""
        for uid in list(self._balancers):
            await self._remove(uid)

    async def _remove(self, uid: str) -> None:
        found = self._balancers.pop(uid, None)
        if found is not None:
            await found.close()

    def _taken_by_others(self, uid: str) -> set[str]:
        """Return the addresses that have a listener, or that are in the status of another Service."""
        ours = {one.address for other, one in self._balancers.items() if other != uid}
        told = (status_addresses(one) for one in self._services.list() if one.metadata.uid != uid)
        return ours.union(*told)


def is_supported(port: ServicePort) -> bool:
    """Return True if the protocol is TCP."""
    return port.protocol in ("", "TCP")


def status_addresses(service: Service) -> tuple[str, ...]:
    """Return the addresses in the Service's status."""
    return tuple(one.ip for one in service.status.load_balancer.ingress if one.ip)


def choose_address(service: Service, taken: Collection[str], network: IPv4Network) -> str:
    """Return the requested address, else the existing one, else a free one derived from the UID.

    Raises `CloudError` if the requested address is not available, or if none is left.
    """
    wanted = service.spec.load_balancer_ip
    if wanted:
        return _asked_for(wanted, taken, network)
    for had in status_addresses(service):
        if had not in taken and IPv4Address(had) in network:
            return had
    first, size = int(network.network_address), network.num_addresses
    begin = int.from_bytes(hashlib.sha256(service.metadata.uid.encode()).digest()[:8], "big") % size
    for step in range(size):
        offset = (begin + step) % size
        found = str(IPv4Address(first + offset))
        if 0 < offset < size - 1 and found not in taken:
            return found
    raise CloudError(f"no free address in {network}")


def _asked_for(wanted: str, taken: Collection[str], network: IPv4Network) -> str:
    try:
        inside = IPv4Address(wanted) in network
    except ValueError:
        inside = False
    if not inside:
        raise CloudError(f"the address {wanted} is not within {network}")
    if wanted in taken:
        raise CloudError(f"the address {wanted} is used by another service")
    return wanted
