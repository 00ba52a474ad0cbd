# SPDX-License-Identifier: Apache-2.0
"""Objects that must exist before requests are served: namespaces, the kubernetes Service, config maps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address, ip_network

from kubeloop.api.generated.core_v1 import (
    ConfigMap,
    EndpointAddress,
    EndpointPort,
    Endpoints,
    EndpointSubset,
    Namespace,
    NamespaceSpec,
    Service,
    ServicePort,
    ServiceSpec,
)
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointConditions, EndpointSlice
from kubeloop.api.generated.discovery_v1 import EndpointPort as SlicePort
from kubeloop.api.generated.meta_v1 import Condition, ObjectMeta
from kubeloop.api.generated.networking_v1 import (
    IPAddress,
    IPAddressSpec,
    ParentReference,
    ServiceCIDR,
    ServiceCIDRSpec,
    ServiceCIDRStatus,
)
from kubeloop.api.generated.scheduling_v1 import PriorityClass
from kubeloop.api.scalars.wire import Time

_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "default")
_SYSTEM_PRIORITY = 2_000_000_000
_SERVICE = "kubernetes"
_SERVICE_PORT = 443


def namespaces() -> Iterator[Namespace]:
    """Yield the system namespaces."""
    for name in _NAMESPACES:
        yield Namespace(metadata=ObjectMeta(name=name), spec=NamespaceSpec(finalizers=("kubernetes",)))


def priority_classes() -> Iterator[PriorityClass]:
    """Yield the system priority classes."""
    yield PriorityClass(
        metadata=ObjectMeta(name="system-cluster-critical"),
        value=_SYSTEM_PRIORITY,
        description=(
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
        ),
    )
    yield PriorityClass(
        metadata=ObjectMeta(name="system-node-critical"),
        value=_SYSTEM_PRIORITY + 1000,
        description="Used for system critical pods that must not be moved from their current node.",
    )


def service_address(service_cidr: str) -> str:
    """Return the first address of the Service range, which is the server's own."""
    return str(ip_network(service_cidr).network_address + 1)


def service_cidr(cidrs: tuple[str, ...], now: Time) -> ServiceCIDR:
    """Return the default ServiceCIDR."""
    ready = Condition(
        type="Ready",
        status="True",
        message="Kubernetes default Service CIDR is ready",
        last_transition_time=now,
    )
    return ServiceCIDR(
        metadata=ObjectMeta(name=_SERVICE),
        spec=ServiceCIDRSpec(cidrs=cidrs),
        status=ServiceCIDRStatus(conditions=(ready,)),
    )


def service_ip(cidr: str) -> IPAddress:
    """Return the IPAddress of the kubernetes Service."""
    address = service_address(cidr)
    labels = {
        "ipaddress.kubernetes.io/ip-family": _family(address),
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    parent = ParentReference(resource="services", namespace="default", name=_SERVICE)
    return IPAddress(metadata=ObjectMeta(name=address, labels=labels), spec=IPAddressSpec(parent_ref=parent))


def service(cidr: str, secure_port: int, node_port: int = 0) -> Service:
    """Return the kubernetes Service, with a node port if one is given."""
    address = service_address(cidr)
    port = ServicePort(name="https", port=_SERVICE_PORT, protocol="TCP", target_port=secure_port, node_port=node_port)
    return Service(
        metadata=ObjectMeta(
            name=_SERVICE, namespace="default", labels={"component": "apiserver", "provider": "kubernetes"}
        ),
        spec=ServiceSpec(
            type="NodePort" if node_port else "ClusterIP",
            cluster_ip=address,
            cluster_ips=(address,),
            ip_families=(_family(address),),
            ip_family_policy="SingleStack",
            internal_traffic_policy="Cluster",
            session_affinity="None",
            ports=(port,),
        ),
    )


def endpoints(servers: Iterable[tuple[str, int]]) -> Iterator[Endpoints | EndpointSlice]:
    """Yield Endpoints and EndpointSlices of the kubernetes Service, without unspecified addresses."""
    by_port: dict[tuple[int, str], list[str]] = {}
    for address, port in sorted(servers):
        if address and not ip_address(address).is_unspecified:
            by_port.setdefault((port, _family(address)), []).append(address)
    if not by_port:
        return
    groups = sorted(by_port.items())
    # The server maintains the slices itself, so the mirroring controller must ignore them.
    yield Endpoints(
        metadata=ObjectMeta(
            name=_SERVICE, namespace="default", labels={"endpointslice.kubernetes.io/skip-mirror": "true"}
        ),
        subsets=tuple(
            EndpointSubset(
                addresses=tuple(EndpointAddress(ip=address) for address in addresses),
                ports=(EndpointPort(name="https", port=port, protocol="TCP"),),
            )
            for (port, _), addresses in groups
        ),
    )
    for number, ((port, family), addresses) in enumerate(groups):
        yield _endpoint_slice(f"{_SERVICE}-{port}-{family.lower()}" if number else _SERVICE, family, addresses, port)


def _endpoint_slice(name: str, family: str, addresses: Iterable[str], port: int) -> EndpointSlice:
    return EndpointSlice(
        metadata=ObjectMeta(name=name, namespace="default", labels={"kubernetes.io/service-name": _SERVICE}),
        address_type=family,
        endpoints=tuple(Endpoint(addresses=(one,), conditions=EndpointConditions(ready=True)) for one in addresses),
        ports=(SlicePort(name="https", port=port, protocol="TCP"),),
    )


def config_maps(trust: Mapping[str, str], today: str) -> Iterator[ConfigMap]:
    """Yield extension-apiserver-authentication and kube-apiserver-legacy-service-account-token-tracking."""
    if trust:
        yield ConfigMap(
            metadata=ObjectMeta(name="extension-apiserver-authentication", namespace="kube-system"),
            data=dict(trust),
        )
    yield ConfigMap(
        metadata=ObjectMeta(name="kube-apiserver-legacy-service-account-token-tracking", namespace="kube-system"),
        data={"since": today},
    )


def _family(address: str) -> str:
    return f"IPv{ip_address(address).version}"
