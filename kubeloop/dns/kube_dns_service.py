# SPDX-License-Identifier: Apache-2.0
"""Service `kube-dns` and its EndpointSlices for servers outside of pods: kubeadm's Service without its selector."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kubeloop.api.generated.core_v1 import Service, ServicePort, ServiceSpec
from kubeloop.api.generated.discovery_v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.dns.zone.service_objects import SERVICE_NAME_LABEL

NAMESPACE = "kube-system"
NAME = "kube-dns"
MANAGER = "kubeloop-dns"
MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
_DNS_INDEX = 10  # of the service IP in the service range, as in kubeadm
_LABELS = {"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"}


class KubeDnsError(ValueError):
    """Addresses or networks for which there can be no Service kube-dns."""


@dataclass(frozen=True, slots=True)
class KubeDnsEndpoints:
    """Addresses of DNS servers, and their ports."""

    addresses: tuple[str, ...]
    port: int = 53
    metrics_port: int = 9153  # 0: no port for metrics


def dns_service_ip(service_cidr: str) -> str:
    """Return the tenth address of the service range. Raises `KubeDnsError`."""
    network = ipaddress.ip_network(service_cidr)
    if network.num_addresses <= _DNS_INDEX:
        raise KubeDnsError(f"{service_cidr} has no tenth address")
    return str(network[_DNS_INDEX])


def kube_dns_objects(service_cidr: str, endpoints: KubeDnsEndpoints) -> tuple[Service, tuple[EndpointSlice, ...]]:
    """Return the Service and its slices, one for each IP family of the servers. Raises `KubeDnsError`."""
    for text in endpoints.addresses:
        address = ipaddress.ip_address(text)
        if address.is_loopback or address.is_unspecified or address.is_link_local:
            raise KubeDnsError(f"{text} cannot be reached from pods: bind the server to an address of the machine")
    ports = [("dns", "UDP", 53, endpoints.port), ("dns-tcp", "TCP", 53, endpoints.port)]
    if endpoints.metrics_port:
        ports.append(("metrics", "TCP", 9153, endpoints.metrics_port))
    annotations = {"prometheus.io/port": "9153", "prometheus.io/scrape": "true"} if endpoints.metrics_port else {}
    service = Service(
        metadata=ObjectMeta(name=NAME, namespace=NAMESPACE, labels=_LABELS, annotations=annotations),
        spec=ServiceSpec(
            cluster_ip=dns_service_ip(service_cidr),
            ports=tuple(
                ServicePort(name=name, protocol=protocol, port=port, target_port=target)
                for name, protocol, port, target in ports
            ),
        ),
    )
    return service, tuple(_slices(endpoints.addresses, ports))


def _slices(addresses: Sequence[str], ports: Sequence[tuple[str, str, int, int]]) -> Iterable[EndpointSlice]:
    for version in (4, 6):
        chosen = sorted(one for one in set(addresses) if ipaddress.ip_address(one).version == version)
        if chosen:
            yield EndpointSlice(
                metadata=ObjectMeta(
                    name=f"{NAME}-ipv{version}",
                    namespace=NAMESPACE,
                    labels={"k8s-app": "kube-dns", SERVICE_NAME_LABEL: NAME, MANAGED_BY_LABEL: MANAGER},
                ),
                address_type=f"IPv{version}",
                endpoints=tuple(
                    Endpoint(addresses=(one,), conditions=EndpointConditions(ready=True)) for one in chosen
                ),
                ports=tuple(
                    EndpointPort(name=name, protocol=protocol, port=target) for name, protocol, _, target in ports
                ),
            )
