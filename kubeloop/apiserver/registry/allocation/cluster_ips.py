# SPDX-License-Identifier: Apache-2.0
"""Allocation of a Service's cluster IPs: the requested ones, or any free one of each of its families."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Service, ServiceSpec
from kubeloop.api.meta.field_path import FieldPath, invalid, quote
from kubeloop.api.strategy.services import needs_cluster_ip
from kubeloop.apiserver.registry.allocation.ip_families import is_unchanged_prefer_dual_stack
from kubeloop.apiserver.registry.allocation.node_ports import RangeAllocationError
from kubeloop.apiserver.registry.allocation.service_cidrs import NONE

ALLOCATED: Final = "provided IP is already allocated"
FULL: Final = "range is full"
_IPS: Final = FieldPath("spec").child("clusterIPs")


class IPAllocator(Protocol):
    """Allocator of addresses."""

    def allocate(self, address: str) -> None:
        """Allocate this address. Raises `Refused`."""

    def allocate_next(self, family: str) -> str:
        """Allocate a free address. Raises `Refused`."""


def allocate_cluster_ips(new: Service, old: Service | None, desk: IPAllocator) -> None:
    """Allocate the missing addresses of a Service whose families are set."""
    spec = new.spec
    for index in _missing(spec, old.spec if old is not None else None):
        padding = ("",) * (index + 1 - len(spec.cluster_ips))
        force_setattr(spec, "cluster_ips", (*spec.cluster_ips, *padding))
        if asked := spec.cluster_ips[index]:
            _allocate_requested(new, asked, desk)
        else:
            set_address(spec, index, allocate_any_address(new, spec.ip_families[index], desk))


def set_address(spec: ServiceSpec, index: int, address: str) -> None:
    """Set an address in the list; the first one also in `clusterIP`."""
    addresses = list(spec.cluster_ips)
    addresses[index] = address
    force_setattr(spec, "cluster_ips", tuple(addresses))
    if index == 0:
        force_setattr(spec, "cluster_ip", address)


def check_parent(service: Service) -> None:
    """Reject an address for a Service without a name: an IPAddress names the Service that it belongs to."""
    addresses = addresses_of(service.spec)
    if service.metadata.name or not addresses:
        return
    why = f"IPAddress.networking.k8s.io {quote(addresses[0])} is invalid: spec.parentRef.name: Required value"
    error = invalid(_IPS, ("",), f"failed to allocate IP: {why}")
    raise errors.invalid("", "Service", "", [error])


def addresses_of(spec: ServiceSpec) -> tuple[str, ...]:
    """Return the addresses that a Service holds; a headless one holds none."""
    return tuple(address for address in spec.cluster_ips if address != NONE)


def allocate_any_address(service: Service, family: str, desk: IPAllocator) -> str:
    """Allocate a free address of a family; raises InternalError."""
    try:
        return desk.allocate_next(family)
    except RangeAllocationError as refusal:
        name = quote(service.metadata.name)
        raise errors.internal_error(f"failed to allocate a serviceIP for Service {name}: {refusal}") from None


def address_error(service: Service, asked: str, why: str) -> errors.ApiError:
    """Return the Invalid error for a requested address."""
    error = invalid(_IPS, service.spec.cluster_ips, f"failed to allocate IP {asked}: {why}")
    return errors.invalid("", "Service", service.metadata.name, [error])


def _allocate_requested(service: Service, asked: str, desk: IPAllocator) -> None:
    try:
        desk.allocate(asked)
    except RangeAllocationError as refusal:
        raise address_error(service, asked, str(refusal)) from None


def _missing(spec: ServiceSpec, before: ServiceSpec | None) -> Iterable[int]:
    """Return the indices of the addresses that are to be allocated."""
    if not needs_cluster_ip(spec):
        return ()
    if before is None or not needs_cluster_ip(before):
        return () if spec.cluster_ips[:1] == (NONE,) else range(len(spec.ip_families))
    if is_unchanged_prefer_dual_stack(spec, before) or before.cluster_ips[:1] == (NONE,):
        return ()
    gains_second = len(before.ip_families) == 1 and len(spec.ip_families) == 2
    return (1,) if gains_second else ()
