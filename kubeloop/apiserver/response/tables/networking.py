# SPDX-License-Identifier: Apache-2.0
"""Printers of services, endpoints, ingresses, network policies and addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from kubeloop.apiserver.response.tables.model import AGE, NAME, Cells, Printer, column, wide_column
from kubeloop.apiserver.response.tables.text import (
    NONE,
    UNKNOWN,
    UNSET,
    format_age,
    format_labels,
    format_selector,
    format_shortened,
)

if TYPE_CHECKING:
    from kubeloop.api.generated.core_v1 import Endpoints, LoadBalancerIngress, Service, ServicePort
    from kubeloop.api.generated.discovery_v1 import EndpointPort, EndpointSlice
    from kubeloop.api.generated.networking_v1 import (
        Ingress,
        IngressClass,
        IngressLoadBalancerIngress,
        IPAddress,
        NetworkPolicy,
        ServiceCIDR,
    )

_DEFAULT_INGRESS_CLASS = "ingressclass.kubernetes.io/is-default-class"
_MAX_HOSTS = 3


def _balancer_addresses(ingress: Iterable[LoadBalancerIngress | IngressLoadBalancerIngress]) -> list[str]:
    return sorted({point.ip or point.hostname for point in ingress} - {""})


def _external_ip(service: Service) -> str:
    spec = service.spec
    if spec.type in ("ClusterIP", "NodePort"):
        return ",".join(spec.external_ips) or NONE
    if spec.type == "LoadBalancer":
        balancer = _balancer_addresses(service.status.load_balancer.ingress)
        return ",".join([*balancer, *spec.external_ips]) or "<pending>"
    return spec.external_name if spec.type == "ExternalName" else UNKNOWN


def _service_port(port: ServicePort) -> str:
    number = f"{port.port}:{port.node_port}" if port.node_port > 0 else str(port.port)
    return f"{number}/{port.protocol}"


def _service_cells(service: Service, now: datetime) -> Cells:
    spec = service.spec
    return [
        service.metadata.name,
        spec.type,
        spec.cluster_ips[0] if spec.cluster_ips else NONE,
        _external_ip(service),
        ",".join(map(_service_port, spec.ports)) or NONE,
        format_age(service, now),
        format_labels(spec.selector),
    ]


def _addresses(endpoints: Endpoints) -> Iterator[str]:
    for subset in endpoints.subsets:
        if not subset.ports:
            yield from (address.ip for address in subset.addresses)
        for port in subset.ports:
            for address in subset.addresses:
                host = f"[{address.ip}]" if ":" in address.ip else address.ip
                yield f"{host}:{port.port}"


def _endpoints_cells(endpoints: Endpoints, now: datetime) -> Cells:
    shown = format_shortened(list(_addresses(endpoints))) if endpoints.subsets else NONE
    return [endpoints.metadata.name, shown, format_age(endpoints, now)]


def _slice_port(port: EndpointPort) -> str:
    if port.port is not None:
        return str(port.port)
    return "*" if port.name is None else port.name


def _endpoint_slice_cells(endpoint_slice: EndpointSlice, now: datetime) -> Cells:
    ports = [_slice_port(port) for port in endpoint_slice.ports or ()]
    addresses = [address for endpoint in endpoint_slice.endpoints or () for address in endpoint.addresses or ()]
    return [
        endpoint_slice.metadata.name,
        endpoint_slice.address_type,
        format_shortened(ports) or UNSET,
        format_shortened(addresses) or UNSET,
        format_age(endpoint_slice, now),
    ]


def _hosts(ingress: Ingress) -> str:
    """Return the hosts cell; rules without a host aren't shown, yet count among the omitted ones."""
    rules = ingress.spec.rules
    shown: list[str] = []
    for rule in rules:
        if len(shown) == _MAX_HOSTS:
            return f"{','.join(shown)} + {len(rules) - _MAX_HOSTS} more..."
        if rule.host:
            shown.append(rule.host)
    return ",".join(shown) or "*"


def _ingress_cells(ingress: Ingress, now: datetime) -> Cells:
    spec = ingress.spec
    return [
        ingress.metadata.name,
        NONE if spec.ingress_class_name is None else spec.ingress_class_name,
        _hosts(ingress),
        ",".join(_balancer_addresses(ingress.status.load_balancer.ingress)),
        "80, 443" if spec.tls else "80",
        format_age(ingress, now),
    ]


def _ingress_class_cells(ingress_class: IngressClass, now: datetime) -> Cells:
    is_default = ingress_class.metadata.annotations.get(_DEFAULT_INGRESS_CLASS) == "true"
    reference = ingress_class.spec.parameters
    parameters = NONE
    if reference:
        group = "" if reference.api_group is None else f".{reference.api_group}"
        parameters = f"{reference.kind}{group}/{reference.name}"
    return [
        ingress_class.metadata.name + (" (default)" if is_default else ""),
        ingress_class.spec.controller,
        parameters,
        format_age(ingress_class, now),
    ]


def _network_policy_cells(policy: NetworkPolicy, now: datetime) -> Cells:
    return [policy.metadata.name, format_selector(policy.spec.pod_selector), format_age(policy, now)]


def _service_cidr_cells(service_cidr: ServiceCIDR, now: datetime) -> Cells:
    return [service_cidr.metadata.name, ",".join(service_cidr.spec.cidrs), format_age(service_cidr, now)]


def _ip_address_cells(address: IPAddress, now: datetime) -> Cells:
    """Return the cells of an IPAddress; as upstream, rows end with an age that has no column."""
    parent = address.spec.parent_ref
    reference = NONE
    if parent:
        resource = f"{parent.resource}.{parent.group}" if parent.group else parent.resource
        reference = "/".join(part for part in (resource.lower(), parent.namespace) if part) + f"/{parent.name}"
    return [address.metadata.name, reference, format_age(address, now)]


SERVICE = Printer(
    columns=(
        NAME,
        column("Type", "Type of the service."),
        column("Cluster-IP", "First cluster IP."),
        column("External-IP", "External addresses."),
        column("Port(s)", "Service ports and node ports."),
        AGE,
        wide_column("Selector", "Label selector of the pods."),
    ),
    cells=_service_cells,
)
ENDPOINTS = Printer(columns=(NAME, column("Endpoints", "Ready addresses with ports."), AGE), cells=_endpoints_cells)
ENDPOINT_SLICE = Printer(
    columns=(
        NAME,
        column("AddressType", "Address type."),
        column("Ports", "Ports of the endpoints."),
        column("Endpoints", "Addresses of the endpoints."),
        AGE,
    ),
    cells=_endpoint_slice_cells,
)
INGRESS = Printer(
    columns=(
        NAME,
        column("Class", "Ingress class."),
        column("Hosts", "Host names of the rules."),
        column("Address", "Address of the load balancer."),
        column("Ports", "Ports of the load balancer."),
        AGE,
    ),
    cells=_ingress_cells,
)
INGRESS_CLASS = Printer(
    columns=(
        NAME,
        column("Controller", "Controller of the class."),
        column("Parameters", "Reference to the parameters."),
        AGE,
    ),
    cells=_ingress_class_cells,
)
NETWORK_POLICY = Printer(
    columns=(NAME, column("Pod-Selector", "Label selector of the pods."), AGE), cells=_network_policy_cells
)
SERVICE_CIDR = Printer(columns=(NAME, column("CIDRs", "Address ranges."), AGE), cells=_service_cidr_cells)
IP_ADDRESS = Printer(columns=(NAME, column("ParentRef", "Object that uses the address.")), cells=_ip_address_cells)
