# SPDX-License-Identifier: Apache-2.0
"""Records of a Service (specification 1.1.0, sections 2.3 to 2.5): pure functions of the Service and its slices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointSlice
from kubeloop.dns.wire.constants import MAX_LABEL_SIZE
from kubeloop.dns.wire.names import DnsFormatError, encode_name
from kubeloop.dns.zone.addresses import endpoint_label, pack_address

NO_PORT = -1  # of a Service or slice without ports: it has addresses, but no SRV records
_EXTERNAL_NAME = "ExternalName"
_HEADLESS = "None"


class ServingPort(NamedTuple):
    """Port of a Service or of an endpoint."""

    name: str
    protocol: str
    number: int


class ReadyEndpoint(NamedTuple):
    """Address of an endpoint that is ready."""

    label: bytes
    address: bytes
    ports: tuple[ServingPort, ...]


class RecordEntry(NamedTuple):
    """Address and port under a name; SRV records have the target."""

    target: bytes
    address: bytes
    port: int


Nodes = Mapping[bytes, tuple[RecordEntry, ...]]


def ready_endpoints(endpoint_slice: EndpointSlice) -> tuple[ReadyEndpoint, ...]:
    """Return the ready endpoints of a slice; an endpoint of unknown readiness counts as ready."""
    if endpoint_slice.address_type == "FQDN":
        return ()
    ports = tuple(
        ServingPort(port.name or "", (port.protocol or "").lower(), NO_PORT if port.port is None else port.port)
        for port in endpoint_slice.ports or ()
    ) or (ServingPort("", "", NO_PORT),)
    found: list[ReadyEndpoint] = []
    for endpoint in endpoint_slice.endpoints or ():
        if endpoint.conditions.ready is not False:
            found += _addresses(endpoint, ports)
    return tuple(found)


def _addresses(endpoint: Endpoint, ports: tuple[ServingPort, ...]) -> Iterator[ReadyEndpoint]:
    for text in endpoint.addresses or ():
        packed = pack_address(text)
        label = endpoint_label(endpoint.hostname or "", text)
        if packed is not None and len(label) <= MAX_LABEL_SIZE:
            yield ReadyEndpoint(label, packed, ports)


def external_target(service: Service) -> bytes | None:
    """Return the name that an ExternalName Service points to; None if it has no valid name."""
    if not is_external(service) or not service.spec.external_name or pack_address(service.spec.external_name):
        return None
    try:
        return encode_name(service.spec.external_name)
    except DnsFormatError:
        return None


def is_external(service: Service) -> bool:
    """Return True for a Service of type ExternalName."""
    return service.spec.type == _EXTERNAL_NAME


def is_headless(service: Service) -> bool:
    """Return True for a Service without a cluster IP."""
    spec = service.spec
    return (spec.cluster_ips[0] if spec.cluster_ips else spec.cluster_ip) == _HEADLESS


def cluster_addresses(service: Service) -> tuple[bytes, ...]:
    """Return the packed cluster IPs of a Service."""
    spec = service.spec
    if is_external(service):
        return ()
    texts = spec.cluster_ips or (spec.cluster_ip,)
    return tuple(packed for text in texts if (packed := pack_address(text)) is not None)


def service_nodes(name: bytes, service: Service, endpoints: tuple[ReadyEndpoint, ...]) -> Nodes:
    """Return the names below and of a Service with their entries; an ExternalName Service has none."""
    if is_external(service):
        return {}
    nodes: dict[bytes, list[RecordEntry]] = {}
    for endpoint in endpoints:
        target = _child(endpoint.label, name)
        entries = [RecordEntry(target, endpoint.address, port.number) for port in endpoint.ports]
        nodes.setdefault(target, []).extend(entries)
        if is_headless(service):
            nodes.setdefault(name, []).extend(entries)
            _add_ports(nodes, name, zip(endpoint.ports, ([entry] for entry in entries), strict=True))
    if not is_headless(service):
        ports = [ServingPort(one.name, (one.protocol or "TCP").lower(), one.port) for one in service.spec.ports]
        addresses = cluster_addresses(service)
        groups = [
            (port, [RecordEntry(name, address, port.number) for address in addresses])
            for port in ports or [ServingPort("", "", NO_PORT)]
        ]
        nodes[name] = [entry for _, group in groups for entry in group]
        _add_ports(nodes, name, groups)
    return {node: tuple(entries) for node, entries in nodes.items() if entries}


def _add_ports(
    nodes: dict[bytes, list[RecordEntry]], name: bytes, groups: Iterable[tuple[ServingPort, list[RecordEntry]]]
) -> None:
    """Add the names of named ports, such as _https._tcp."""
    for port, entries in groups:
        if port.name and len(port.name) < MAX_LABEL_SIZE:
            owner = _child(f"_{port.name.lower()}".encode(), _child(f"_{port.protocol}".encode(), name))
            nodes.setdefault(owner, []).extend(entries)


def _child(label: bytes, name: bytes) -> bytes:
    return bytes((len(label),)) + label + name
