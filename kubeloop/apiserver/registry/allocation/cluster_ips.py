"""Allocation of a Service's cluster IPs: the requested ones, or any free one of each of its families."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Service, ServiceSpec
from kubeloop.api.meta.field_path import Path, invalid, quote
from kubeloop.api.strategy.services import needs_cluster_ip
from kubeloop.apiserver.registry.allocation.ip_families import stays_as_preferred
from kubeloop.apiserver.registry.allocation.node_ports import Refused
from kubeloop.apiserver.registry.allocation.service_cidrs import NONE

ALLOCATED: Final = "provided IP is already allocated"
FULL: Final = "range is full"
_IPS: Final = Path("spec").child("clusterIPs")


class AddressDesk(Protocol):
    """Allocator of addresses."""

    def take_address(self, address: str) -> None:
        """Allocate this address. Raises `Refused`."""

    def take_any_address(self, family: str) -> str:
        """Allocate a free address. Raises `Refused`."""


def take_addresses(new: Service, old: Service | None, desk: AddressDesk) -> None:
    """Allocate the missing addresses of a Service whose families are set."""
    spec = new.spec
    for index in _missing(spec, old.spec if old is not None else None):
        padding = ("",) * (index + 1 - len(spec.cluster_ips))
        force_setattr(spec, "cluster_ips", (*spec.cluster_ips, *padding))
        if asked := spec.cluster_ips[index]:
            _take_asked(new, asked, desk)
        else:
            set_address(spec, index, take_any(new, spec.ip_families[index], desk))


def set_address(spec: ServiceSpec, index: int, address: str) -> None:
    """Set an address in the list; the first one also in `clusterIP`."""
    addresses = list(spec.cluster_ips)
    addresses[index] = address
    force_setattr(spec, "cluster_ips", tuple(addresses))
    if index == 0:
        force_setattr(spec, "cluster_ip", address)


def addresses_of(spec: ServiceSpec) -> tuple[str, ...]:
    """Return the addresses that a Service holds; a headless one holds none."""
    return tuple(address for address in spec.cluster_ips if address != NONE)


def take_any(service: Service, family: str, desk: AddressDesk) -> str:
    """Allocate a free address of a family; raises InternalError."""
    try:
        return desk.take_any_address(family)
    except Refused as refusal:
        name = quote(service.metadata.name)
        raise errors.internal_error(f"failed to allocate a serviceIP for Service {name}: {refusal}") from None


def refuse_address(service: Service, asked: str, why: str) -> errors.ApiError:
    """Return the Invalid error for a requested address."""
    error = invalid(_IPS, service.spec.cluster_ips, f"failed to allocate IP {asked}: {why}")
    return errors.invalid("", "Service", service.metadata.name, [error])


def _take_asked(service: Service, asked: str, desk: AddressDesk) -> None:
    try:
        desk.take_address(asked)
    except Refused as refusal:
        raise refuse_address(service, asked, str(refusal)) from None


def _missing(spec: ServiceSpec, before: ServiceSpec | None) -> Iterable[int]:
    """Return the indices of the addresses that are to be allocated."""
    if not needs_cluster_ip(spec):
        return ()
    if before is None or not needs_cluster_ip(before):
        return () if spec.cluster_ips[:1] == (NONE,) else range(len(spec.ip_families))
    if stays_as_preferred(spec, before) or before.cluster_ips[:1] == (NONE,):
        return ()
    gains_second = len(before.ip_families) == 1 and len(spec.ip_families) == 2
    return (1,) if gains_second else ()
