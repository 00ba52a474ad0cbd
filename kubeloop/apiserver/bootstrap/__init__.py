"""Bootstrap objects of a new API server, as plain values; `writer` creates the missing ones.

options ──▶ essential_objects (needed before requests are served) ──▶ remaining_objects (may follow later)

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
    """Properties of this server for its bootstrap objects; a loopback address gets no endpoints."""

    now: datetime
    advertise_address: str = ""
    secure_port: int = 6443
    service_cidr: str = "10.0.0.0/24"
    client_ca_pem: str = ""
    serving: APIResourceConfig = field(default_factory=APIResourceConfig)
    front_proxy: tuple[tuple[str, str], ...] = ()  # entries of extension-apiserver-authentication


BootstrapObject = tuple[Resource, Any]


def bootstrap_objects(options: BootstrapOptions) -> Iterable[BootstrapObject]:
    """Yield all bootstrap objects, referenced ones first."""
    return chain(essential_objects(options), remaining_objects(options))


def essential_objects(options: BootstrapOptions) -> Iterator[BootstrapObject]:
    """Yield namespaces, priority classes, the kubernetes Service with its endpoints, and config maps."""
    from kubeloop.apiserver.bootstrap import essentials

    now = Time(format_time(options.now))
    cidr, port = options.service_cidr, options.secure_port
    yield from _with_resource(essentials.namespaces())
    yield from _with_resource(essentials.priority_classes())
    yield from _with_resource((essentials.service_cidr(cidr, now), essentials.service_ip(cidr)))
    yield from _with_resource((essentials.service(cidr, port),))
    yield from endpoint_objects([(options.advertise_address, port)])
    trust = ({"client-ca-file": options.client_ca_pem} if options.client_ca_pem else {}) | dict(options.front_proxy)
    yield from _with_resource(essentials.config_maps(trust, now[: len("2026-01-31")]))


def endpoint_objects(servers: Iterable[tuple[str, int]]) -> Iterator[BootstrapObject]:
    """Yield the endpoints of the kubernetes Service, for each (address, port) that is reachable from outside."""
    from kubeloop.apiserver.bootstrap import essentials

    yield from _with_resource(essentials.endpoints(servers))


def remaining_objects(options: BootstrapOptions) -> Iterator[BootstrapObject]:
    """Yield APIServices, flow control and access objects; each group's types are imported when reached."""
    now = Time(format_time(options.now))
    yield from _api_services(now, options.serving.resources)
    yield from _flow_control(now)
    yield from access_objects(options.serving.features)


def _api_services(now: Time, resources: Iterable[Resource]) -> Iterator[BootstrapObject]:
    from kubeloop.apiserver.bootstrap.api_services import api_services

    yield from _with_resource(api_services(now, resources))


def _flow_control(now: Time) -> Iterator[BootstrapObject]:
    from kubeloop.apiserver.bootstrap.flow_control import flow_schemas, priority_levels

    yield from _with_resource(priority_levels())
    yield from _with_resource(flow_schemas(now))


def access_objects(features: Features = DEFAULT_FEATURES) -> Iterator[BootstrapObject]:
    """Yield the RBAC objects; roles precede the bindings that refer to them."""
    from kubeloop.apiserver.bootstrap import access

    yield from _with_resource(access.cluster_roles(features))
    yield from _with_resource(access.cluster_role_bindings(features))
    yield from _with_resource(access.roles())
    yield from _with_resource(access.role_bindings())


def _with_resource(objects: Iterable[Any]) -> Iterator[BootstrapObject]:
    for obj in objects:
        yield _RESOURCES[obj.api_version, obj.kind], obj


_RESOURCES = {(resource.group_version, resource.kind): resource for resource in RESOURCES}
