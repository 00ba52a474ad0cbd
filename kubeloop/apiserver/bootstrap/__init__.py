# SPDX-License-Identifier: Apache-2.0
"""Bootstrap objects of a new API server, as plain values; `writer` creates the missing ones.

options ──▶ essential_objects (others refer to them) ──▶ remaining_objects
system_objects.py: writes all of them before the server is ready, and brings back deleted ones

Objects include the status that the server itself reports, which a normal create would drop. They come without
defaults and share nested parts: complete them with `apply_defaults`, and replace, don't mutate, nested parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

from kubeloop.api.features.gates import DEFAULT_FEATURES, Features
from kubeloop.api.features.resource_config import APIResourceConfig
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Time


@dataclass(frozen=True, kw_only=True)
class BootstrapOptions:
    """Properties of this server for its bootstrap objects; without an address there are no endpoints."""

    now: datetime
    advertise_address: str = ""
    secure_port: int = 6443
    service_cidrs: tuple[str, ...] = ("10.0.0.0/24",)  # the first one is that of the kubernetes Service
    service_node_port: int = 0  # of the kubernetes Service; 0: it has none
    client_ca_pem: str = ""
    resource_config: APIResourceConfig = field(default_factory=APIResourceConfig)
    front_proxy: tuple[tuple[str, str], ...] = ()  # entries of extension-apiserver-authentication
    kubelet_client_user: str = ""


BootstrapObject = tuple[Resource, Any]


def bootstrap_objects(options: BootstrapOptions) -> Iterable[BootstrapObject]:
    """Yield all bootstrap objects, referenced ones first."""
    return chain(essential_objects(options), remaining_objects(options))


def essential_objects(options: BootstrapOptions) -> Iterator[BootstrapObject]:
    """Yield namespaces, priority classes, the kubernetes Service with its endpoints, and config maps."""
    yield from namespace_objects()
    yield from priority_class_objects()
    yield from service_cidr_objects(options)
    yield from service_objects(options)
    yield from endpoint_objects([(options.advertise_address, options.secure_port)])
    yield from config_map_objects(options)


def namespace_objects() -> Iterator[BootstrapObject]:
    """Yield the system namespaces."""
    from kubeloop.apiserver.bootstrap import essentials

    yield from _with_resource(essentials.namespaces())


def priority_class_objects() -> Iterator[BootstrapObject]:
    """Yield the system priority classes."""
    from kubeloop.apiserver.bootstrap import essentials

    yield from _with_resource(essentials.priority_classes())


def service_cidr_objects(options: BootstrapOptions) -> Iterator[BootstrapObject]:
    """Yield the default ServiceCIDR."""
    from kubeloop.apiserver.bootstrap import essentials

    yield from _with_resource((essentials.service_cidr(options.service_cidrs, Time(format_time(options.now))),))


def service_objects(options: BootstrapOptions) -> Iterator[BootstrapObject]:
    """Yield the IPAddress of the kubernetes Service, and the Service."""
    from kubeloop.apiserver.bootstrap import essentials

    cidr = options.service_cidrs[0]
    service = essentials.service(cidr, options.secure_port, options.service_node_port)
    yield from _with_resource((essentials.service_ip(cidr), service))


def config_map_objects(options: BootstrapOptions) -> Iterator[BootstrapObject]:
    """Yield extension-apiserver-authentication and kube-apiserver-legacy-service-account-token-tracking."""
    from kubeloop.apiserver.bootstrap import essentials

    trust = ({"client-ca-file": options.client_ca_pem} if options.client_ca_pem else {}) | dict(options.front_proxy)
    yield from _with_resource(essentials.config_maps(trust, format_time(options.now)[: len("2026-01-31")]))


def endpoint_objects(servers: Iterable[tuple[str, int]]) -> Iterator[BootstrapObject]:
    """Yield the endpoints of the kubernetes Service, for each (address, port) that is reachable from outside."""
    from kubeloop.apiserver.bootstrap import essentials

    yield from _with_resource(essentials.endpoints(servers))


def remaining_objects(options: BootstrapOptions) -> Iterator[BootstrapObject]:
    """Yield APIServices, flow control and access objects; each group's types are imported when reached."""
    now = Time(format_time(options.now))
    yield from api_service_objects(now, options.resource_config.resources)
    yield from flow_control_objects(now)
    yield from access_objects(options.resource_config.features, options.kubelet_client_user)


def api_service_objects(now: Time, resources: Iterable[Resource]) -> Iterator[BootstrapObject]:
    """Yield the APIServices of the served group versions."""
    from kubeloop.apiserver.bootstrap.api_services import api_services

    yield from _with_resource(api_services(now, resources))


def flow_control_objects(now: Time) -> Iterator[BootstrapObject]:
    """Yield the default priority levels and flow schemas."""
    from kubeloop.apiserver.bootstrap.flow_control import flow_schemas, priority_levels

    yield from _with_resource(priority_levels())
    yield from _with_resource(flow_schemas(now))


def access_objects(features: Features = DEFAULT_FEATURES, kubelet_client_user: str = "") -> Iterator[BootstrapObject]:
    """Yield the RBAC objects; roles precede the bindings that refer to them."""
    from kubeloop.apiserver.bootstrap import rbac_policy

    yield from _with_resource(rbac_policy.cluster_roles(features))
    yield from _with_resource(rbac_policy.cluster_role_bindings(features))
    if kubelet_client_user:
        yield from _with_resource((rbac_policy.kubelet_client_binding(kubelet_client_user),))
    yield from _with_resource(rbac_policy.roles())
    yield from _with_resource(rbac_policy.role_bindings())


def _with_resource(objects: Iterable[Any]) -> Iterator[BootstrapObject]:
    for obj in objects:
        yield _RESOURCES[obj.api_version, obj.kind], obj


_RESOURCES = {(resource.group_version, resource.kind): resource for resource in RESOURCES}
