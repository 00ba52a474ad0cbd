# SPDX-License-Identifier: Apache-2.0
"""Allocation of a Service's node ports: requested, previous, or any free one.

Ports of one Service with the same number and different protocols share their node port; different Services never do.
"""

from __future__ import annotations

from typing import Protocol

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Service, ServiceSpec
from kubeloop.api.meta.field_path import FieldPath, invalid
from kubeloop.api.strategy.services import allocates_node_ports, needs_health_check_port

_PORTS = FieldPath("spec").child("ports")
TYPES_WITH_NODE_PORTS = ("NodePort", "LoadBalancer")  # Service types with node ports


def ports_of(spec: ServiceSpec) -> set[int]:
    """Return the node ports that a Service holds."""
    if spec.type not in TYPES_WITH_NODE_PORTS:
        return set()
    return {*(port.node_port for port in spec.ports), spec.health_check_node_port} - {0}


class RangeAllocationError(Exception):
    """Error for a port or an address that cannot be allocated."""


class PortAllocator(Protocol):
    """Allocator of node ports."""

    def allocate_port(self, port: int) -> None:
        """Allocate this port. Raises `Refused`."""

    def allocate_next_port(self) -> int:
        """Allocate a free port. Raises `Refused`."""


def allocate_node_ports(service: Service, desk: PortAllocator) -> None:
    """Allocate the node ports of a new Service."""
    if service.spec.type in TYPES_WITH_NODE_PORTS:
        _allocate_node_ports(service, desk)
    if needs_health_check_port(service.spec):
        _allocate_health_check_port(service.spec, desk)


def update_node_ports(new: Service, old: Service, desk: PortAllocator) -> None:
    """Allocate the node ports that a changed Service needs in addition."""
    if new.spec.type in TYPES_WITH_NODE_PORTS:
        _reallocate_node_ports(new, old, desk)
    if needs_health_check_port(new.spec) and not needs_health_check_port(old.spec):
        _allocate_health_check_port(new.spec, desk)


def _allocate_node_ports(service: Service, desk: PortAllocator) -> None:
    ports, all_get_one = service.spec.ports, allocates_node_ports(service.spec)
    shared: dict[int, int] = {}
    for index, port in enumerate(ports):
        if not port.node_port and not all_get_one:
            continue
        if port.port not in shared:
            asked = next((one.node_port for one in ports if one.port == port.port and one.node_port), 0)
            shared[port.port] = _allocate_requested(service, index, asked, desk) if asked else _allocate_any(desk)
            force_setattr(port, "node_port", shared[port.port])
        elif not port.node_port:
            force_setattr(port, "node_port", shared[port.port])
        elif port.node_port != shared[port.port]:
            _allocate_requested(service, index, port.node_port, desk)


def _reallocate_node_ports(new: Service, old: Service, desk: PortAllocator) -> None:
    # A Service of another type can carry port numbers that were never allocated.
    known = {port.node_port for port in old.spec.ports if old.spec.type in TYPES_WITH_NODE_PORTS}
    used: set[tuple[str, int]] = set()
    for index, port in enumerate(new.spec.ports):
        if not port.node_port:
            if not allocates_node_ports(new.spec):
                continue
            force_setattr(port, "node_port", _allocate_any(desk))
        elif port.node_port not in known:
            _allocate_requested(new, index, port.node_port, desk)
        known.add(port.node_port)
        if (port.protocol, port.node_port) in used:
            raise errors.ApiError(f"duplicate nodePort: {{{port.protocol} {port.node_port}}}")
        used.add((port.protocol, port.node_port))


def _allocate_requested(service: Service, index: int, asked: int, desk: PortAllocator) -> int:
    try:
        desk.allocate_port(asked)
    except RangeAllocationError as refusal:
        error = invalid(_PORTS.index(index).child("nodePort"), asked, str(refusal))
        raise errors.invalid("", "Service", service.metadata.name, [error]) from None
    return asked


def _allocate_any(desk: PortAllocator) -> int:
    try:
        return desk.allocate_next_port()
    except RangeAllocationError as refusal:
        raise errors.internal_error(f"failed to allocate a nodePort: {refusal}") from None


def _allocate_health_check_port(spec: ServiceSpec, desk: PortAllocator) -> None:
    asked = spec.health_check_node_port
    try:
        if asked:
            desk.allocate_port(asked)
        else:
            force_setattr(spec, "health_check_node_port", desk.allocate_next_port())
    except RangeAllocationError as refusal:
        what = f"requested HealthCheck NodePort {asked}" if asked else "a HealthCheck NodePort 0"
        raise errors.internal_error(f"failed to allocate {what}: {refusal}") from None
