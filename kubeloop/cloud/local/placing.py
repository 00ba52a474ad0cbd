"""Chooses the address of a Service's load balancer. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network

from kubeloop.api.generated.core_v1 import Service
from kubeloop.cloud.provider import CloudError


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
    raise CloudError(f"no address is left in {network}")


def _asked_for(wanted: str, taken: Collection[str], network: IPv4Network) -> str:
    try:
        inside = IPv4Address(wanted) in network
    except ValueError:
        inside = False
    if not inside:
        raise CloudError(f"the address {wanted} is not within {network}")
    if wanted in taken:
        raise CloudError(f"the address {wanted} is another service's")
    return wanted
