# SPDX-License-Identifier: Apache-2.0
"""Computes the desired endpoints of a Service: one per pod and IP family, grouped by ports. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kubeloop.api.generated.core_v1 import Node, ObjectReference, Pod, Service
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointConditions, EndpointPort
from kubeloop.api.pods.pod import is_ready
from kubeloop.controllers.shared.endpoints.pod_endpoints import (
    HEADLESS,
    addresses_of,
    family_of,
    hostname_of,
    port_of,
    should_be_in_endpoints,
)
from kubeloop.controllers.shared.endpoints.slices import EndpointKey, Ports, key_of_endpoint, sort_ports

ZONE = "topology.kubernetes.io/zone"

Group = dict[EndpointKey, Endpoint]
NodeOf = Callable[[str], Node | None]


@dataclass(slots=True)
class DesiredEndpoints:
    """Desired endpoints of a Service in one IP family."""

    groups: dict[Ports, Group] = field(default_factory=dict)
    skipped: list[Pod] = field(default_factory=list)  # pods on unknown nodes


def address_types_of(service: Service) -> tuple[str, ...]:
    """Return the address types of a Service's slices."""
    families = tuple(one for one in service.spec.ip_families if one in ("IPv4", "IPv6"))
    if families:
        return families
    # A server older than IP families does not set it.
    address = service.spec.cluster_ip
    if address and address != HEADLESS:
        return (family_of(address) or "IPv4",)
    return ("IPv4", "IPv6")


def desired_endpoints_of(service: Service, pods: Iterable[Pod], family: str, node_of: NodeOf) -> DesiredEndpoints:
    """Build the endpoints of a Service's pods; a pod on an unknown node is skipped, unless all are published."""
    desired = DesiredEndpoints()
    ports_are_equal = not any(isinstance(one.target_port, str) for one in service.spec.ports)
    ports: Ports | None = None
    for pod in pods:
        if not should_be_in_endpoints(pod):
            continue
        if ports is None or not ports_are_equal:
            ports = ports_of(service, pod)
        group = desired.groups.setdefault(ports, {})
        node = node_of(pod.spec.node_name)
        if node is None and not service.spec.publish_not_ready_addresses:
            desired.skipped.append(pod)
            continue
        endpoint = endpoint_of(pod, node, service, family)
        if endpoint is not None:
            group[key_of_endpoint(endpoint)] = endpoint
    return desired


def endpoint_of(pod: Pod, node: Node | None, service: Service, family: str) -> Endpoint | None:
    """Build the endpoint of a pod; None if it has no address of the family."""
    addresses = addresses_of(pod, family)
    if not addresses:
        return None
    meta, serving = pod.metadata, is_ready(pod)
    terminating = meta.deletion_timestamp is not None
    return Endpoint(
        addresses=tuple(sorted(addresses)),
        conditions=EndpointConditions(
            ready=service.spec.publish_not_ready_addresses or (serving and not terminating),
            serving=serving,
            terminating=terminating,
        ),
        target_ref=ObjectReference(kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid),
        node_name=pod.spec.node_name or None,
        zone=None if node is None else node.metadata.labels.get(ZONE) or None,
        hostname=hostname_of(pod, service) or None,
    )


def ports_of(service: Service, pod: Pod) -> Ports:
    """Resolve the Service's ports for the pod; unknown ones are omitted."""
    found = ((one, port_of(pod, one)) for one in service.spec.ports)
    return sort_ports(
        EndpointPort(name=one.name, port=number, protocol=one.protocol, app_protocol=one.app_protocol)
        for one, number in found
        if number is not None
    )
