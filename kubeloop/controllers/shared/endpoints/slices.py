# SPDX-License-Identifier: Apache-2.0
"""Identity and ownership of EndpointSlices, shared by both controllers that write them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from kubeloop.api.generated.core_v1 import ObjectReference
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointPort, EndpointSlice
from kubeloop.api.meta.name_rules import check_dns1123_subdomain, check_generate_name
from kubeloop.controllers.shared.endpoints.go_order import slice_port_sort_key
from kubeloop.runtime.objects.keys import ObjectKey

MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME: Final = "kubernetes.io/service-name"
INDEX: Final = "manager and service"

Ports = tuple[EndpointPort, ...]


class EndpointKey(NamedTuple):
    """Identity of an endpoint; all its other fields may change in place."""

    addresses: tuple[str, ...]
    hostname: str
    namespace: str
    name: str


def key_of_endpoint(endpoint: Endpoint) -> EndpointKey:
    """Return the identity of an endpoint."""
    target = endpoint.target_ref
    addresses = tuple(sorted(endpoint.addresses or ()))
    if target is None:
        return EndpointKey(addresses, endpoint.hostname or "", "", "")
    return EndpointKey(addresses, endpoint.hostname or "", target.namespace, target.name)


def equal_beyond_key(one: Endpoint, other: Endpoint) -> bool:
    """Return True if two endpoints with the same key differ at most in hints and in the version of their target."""
    return (
        one.node_name == other.node_name
        and one.zone == other.zone
        and one.conditions == other.conditions
        and _unversioned(one.target_ref) == _unversioned(other.target_ref)
    )


def _unversioned(target: ObjectReference | None) -> ObjectReference | None:
    if target is None or not target.resource_version:
        return target
    return msgspec.structs.replace(target, resource_version="")


def sort_ports(ports: Iterable[EndpointPort]) -> Ports:
    """Sort ports as they are listed; the result also identifies a group of slices."""
    listed = tuple(ports)
    return listed if len(listed) < 2 else tuple(sorted(listed, key=slice_port_sort_key))


def name_prefix(service: str) -> str:
    """Return the prefix of the names of a Service's slices."""
    prefix = f"{service}-"
    return service if check_generate_name(check_dns1123_subdomain, prefix) else prefix


def service_key_of(one: EndpointSlice) -> ObjectKey | None:
    """Return the key of the Service that a slice belongs to, or None without the label."""
    name = one.metadata.labels.get(SERVICE_NAME)
    return ObjectKey(one.metadata.namespace, name) if name else None


def index_value_of(one: EndpointSlice) -> tuple[str, ...]:
    """Index a slice by its manager and its Service."""
    key, manager = service_key_of(one), one.metadata.labels.get(MANAGED_BY)
    return (index_value(manager, key),) if key is not None and manager else ()


def index_value(manager: str, key: ObjectKey) -> str:
    """Build the index value for a manager and a Service."""
    return f"{manager} {key.namespace}/{key.name}"
