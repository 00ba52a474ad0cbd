# SPDX-License-Identifier: Apache-2.0
"""Builds the subsets of an Endpoints object from a Service's pods. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Final

import msgspec

from kubeloop.api.generated.core_v1 import (
    EndpointAddress,
    EndpointPort,
    EndpointSubset,
    ObjectReference,
    Pod,
    Service,
)
from kubeloop.api.pods.pod import is_ready
from kubeloop.controllers.shared.endpoints.pod_endpoints import (
    HEADLESS,
    addresses_of,
    family_of,
    hostname_of,
    port_of,
    should_be_in_endpoints,
)
from kubeloop.controllers.shared.endpoints.repack import repack_subsets

CAPACITY: Final = 1000  # addresses per object

Subsets = tuple[EndpointSubset, ...]


def subsets_of(service: Service, pods: Iterable[Pod]) -> Subsets:
    """Build the subsets of a Service with these pods."""
    found: list[EndpointSubset] = []
    all_ready = service.spec.publish_not_ready_addresses
    for pod in pods:
        if not should_be_in_endpoints(pod, terminating_too=all_ready):
            continue
        address = address_of(service, pod)
        if address is None:
            continue
        for ports in _offered_ports(service, pod):
            if all_ready or is_ready(pod):
                found.append(EndpointSubset(addresses=(address,), ports=ports))
            else:
                found.append(EndpointSubset(not_ready_addresses=(address,), ports=ports))
    return repack_subsets(found)


def _offered_ports(service: Service, pod: Pod) -> list[tuple[EndpointPort, ...]]:
    """Return each port of the pod separately; a headless Service may have none."""
    if not service.spec.ports:
        return [()] if service.spec.cluster_ip == HEADLESS else []
    numbers = ((one, port_of(pod, one)) for one in service.spec.ports)
    return [
        (EndpointPort(name=one.name, port=number, protocol=one.protocol, app_protocol=one.app_protocol),)
        for one, number in numbers
        if number is not None
    ]


def address_of(service: Service, pod: Pod) -> EndpointAddress | None:
    """Return the pod's address of the Service's first IP family; None if there is none."""
    meta = pod.metadata
    addresses = addresses_of(pod, _family_of(service, pod))
    if not addresses:
        return None
    return EndpointAddress(
        ip=addresses[0],
        node_name=pod.spec.node_name,
        hostname=hostname_of(pod, service),
        target_ref=ObjectReference(kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid),
    )


def _family_of(service: Service, pod: Pod) -> str:
    if service.spec.ip_families:
        return service.spec.ip_families[0]
    # A server older than IP families does not set it.
    own = service.spec.cluster_ip
    return family_of(pod.status.pod_ip if own in ("", HEADLESS) else own) or "IPv4"


def address_count(subsets: Subsets) -> int:
    """Return the number of addresses."""
    return sum(len(one.addresses) + len(one.not_ready_addresses) for one in subsets)


def truncate_endpoints(subsets: Subsets) -> Subsets:
    """Truncate to the capacity of an object, ready addresses first, in proportion over the subsets."""
    ready = sum(len(one.addresses) for one in subsets)
    if address_count(subsets) <= CAPACITY:
        return subsets
    if ready > CAPACITY:
        return _cut(subsets, "addresses", CAPACITY)
    return _cut(subsets, "not_ready_addresses", CAPACITY - ready)


def _cut(subsets: Subsets, which: str, room: int) -> Subsets:
    total = sum(len(getattr(one, which)) for one in subsets)
    left, cut = room, []
    for one in subsets:
        addresses = getattr(one, which)
        kept = addresses[: min(left, ceil(len(addresses) / total * room))]
        left -= len(kept)
        changes = {which: kept} if which == "not_ready_addresses" else {which: kept, "not_ready_addresses": ()}
        cut.append(msgspec.structs.replace(one, **changes))
    return tuple(cut)


def are_equal(current: Subsets, wanted: Subsets) -> bool:
    """Return True if two lists are equal apart from the versions of pods and the arrangement."""
    return _unversioned(current) == wanted or repack_subsets(_unversioned(current)) == wanted


def _unversioned(subsets: Subsets) -> Subsets:
    return tuple(
        msgspec.structs.replace(
            one,
            addresses=tuple(map(_unversioned_address, one.addresses)),
            not_ready_addresses=tuple(map(_unversioned_address, one.not_ready_addresses)),
        )
        for one in subsets
    )


def _unversioned_address(address: EndpointAddress) -> EndpointAddress:
    target = address.target_ref
    if target is None or not target.resource_version:
        return address
    return msgspec.structs.replace(address, target_ref=msgspec.structs.replace(target, resource_version=""))
