"""Endpoint slices as both loops that keep them see them: whose they are, and what makes them the same. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from kubeloop.api.generated.core_v1 import ObjectReference
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointPort, EndpointSlice
from kubeloop.api.meta.name_rules import check_dns1123_subdomain, for_prefix
from kubeloop.controllers.shared.endpoints.go_order import order_of_slice_port
from kubeloop.runtime.objects.keys import ObjectKey

MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME: Final = "kubernetes.io/service-name"
INDEX: Final = "manager and service"

Ports = tuple[EndpointPort, ...]


class EndpointKey(NamedTuple):
    """What makes two endpoints the same one; all else of it may change in place."""

    addresses: tuple[str, ...]
    hostname: str
    namespace: str
    name: str


def key_of_endpoint(endpoint: Endpoint) -> EndpointKey:
    target = endpoint.target_ref
    addresses = tuple(sorted(endpoint.addresses or ()))
    if target is None:
        return EndpointKey(addresses, endpoint.hostname or "", "", "")
    return EndpointKey(addresses, endpoint.hostname or "", target.namespace, target.name)


def says_the_same(one: Endpoint, other: Endpoint) -> bool:
    """Whether two endpoints with the same key differ in nothing but their hints and versions of what they refer to."""
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


def in_order(ports: Iterable[EndpointPort]) -> Ports:
    """Ports as they are listed, and as they tell groups of slices apart."""
    listed = tuple(ports)
    return listed if len(listed) < 2 else tuple(sorted(listed, key=order_of_slice_port))


def name_prefix(service: str) -> str:
    """What the names of slices begin with."""
    prefix = f"{service}-"
    return service if for_prefix(check_dns1123_subdomain, prefix) else prefix


def service_key_of(one: EndpointSlice) -> ObjectKey | None:
    """The service that a slice belongs to; None if it doesn't say."""
    name = one.metadata.labels.get(SERVICE_NAME)
    return ObjectKey(one.metadata.namespace, name) if name else None


def index_value_of(one: EndpointSlice) -> tuple[str, ...]:
    """Index by who manages a slice, and for which service."""
    key, manager = service_key_of(one), one.metadata.labels.get(MANAGED_BY)
    return (index_value(manager, key),) if key is not None and manager else ()


def index_value(manager: str, key: ObjectKey) -> str:
    return f"{manager} {key.namespace}/{key.name}"
