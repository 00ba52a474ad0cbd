# SPDX-License-Identifier: Apache-2.0
"""Resolves a Service to an address: its cluster IP, or one of its endpoints. Pure; randomness is an argument."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Service, ServicePort
from kubeloop.api.generated.discovery_v1 import EndpointSlice

_ROUTED = ("ClusterIP", "LoadBalancer", "NodePort")


class ServiceUnresolvable(Exception):
    """Error for a Service that cannot be resolved; the message is upstream's."""


class HostPort(NamedTuple):
    """Host and port to connect to."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def cluster_address(service: Service, port: int) -> HostPort:
    """Return the Service's own address; raises `ServiceUnresolvable`."""
    spec = service.spec
    if spec.type == "ExternalName":
        return HostPort(spec.external_name, port)
    if spec.type == "ClusterIP" and spec.cluster_ip == "None":
        raise ServiceUnresolvable('cannot route to service with ClusterIP "None"')
    if spec.type not in _ROUTED:
        raise ServiceUnresolvable(f'unsupported service type "{spec.type}"')
    return HostPort(spec.cluster_ip, _port_of(service, port).port)


def endpoint_address(service: Service, slices: Sequence[EndpointSlice], port: int, chance: Random) -> HostPort:
    """Return a random ready endpoint of a Service, preferring its first address family."""
    spec = service.spec
    if spec.type == "ExternalName":
        return HostPort(spec.external_name, port)
    if spec.type not in _ROUTED:
        raise ServiceUnresolvable(f'unsupported service type "{spec.type}"')
    name = _port_of(service, port).name
    preferred = spec.ip_families[0] if spec.ip_families else ""
    found = [(one.address_type != preferred, address) for one in slices for address in ready_addresses(one, name)]
    if not found:
        raise ServiceUnresolvable(f'no endpoints available for service "{service.metadata.name}"')
    best = min(found)[0]
    return chance.choice([address for rank, address in found if rank == best])


def ready_addresses(endpoints: EndpointSlice, port_name: str) -> list[HostPort]:
    """Return the addresses of ready endpoints of a slice, for a named port."""
    ports = [one.port for one in endpoints.ports or () if (one.name or "") == port_name and one.port is not None]
    ready = [one for one in endpoints.endpoints or () if one.conditions is None or one.conditions.ready is not False]
    return [HostPort(one.addresses[0], ports[0]) for one in ready if ports and one.addresses]


def _port_of(service: Service, port: int) -> ServicePort:
    for one in service.spec.ports or ():
        if one.port == port:
            return one
    raise ServiceUnresolvable(f'no service port {port} found for service "{service.metadata.name}"')
