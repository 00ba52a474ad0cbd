# SPDX-License-Identifier: Apache-2.0
"""Objects for the tests of the proxy."""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated import core_v1, discovery_v1
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.proxy.endpoint import EndpointInfo
from kubeloop.proxy.endpoint_selection import NodeTopology, select_endpoints
from kubeloop.proxy.ip_family import IPV4
from kubeloop.proxy.node_addresses import LocalTrafficDetector, nodeport_addresses
from kubeloop.proxy.rules.base_table import base_rules
from kubeloop.proxy.rules.names import NODEPORT_IPS
from kubeloop.proxy.rules.port_rules import ElementKey, build_port_rules
from kubeloop.proxy.rules.settings import TableSettings
from kubeloop.proxy.rules.table import ProxyTable
from kubeloop.proxy.service_port import NamespacedName, ServicePortInfo, ServicePortName

NODE = "n1"
NODE_IP = "192.168.0.1"
CLIENT = "192.168.0.99"
SETTINGS = TableSettings(
    IPV4,
    NODE_IP,
    detector=LocalTrafficDetector("network", "10.244.0.0/16"),
    nodeport_addresses=nodeport_addresses([f"{NODE_IP}/32"], IPV4),
)


def service(name: str = "web", address: str = "10.96.0.1", **spec: Any) -> core_v1.Service:
    """Return a Service with one TCP port."""
    ports = spec.pop(
        "ports", (core_v1.ServicePort(name="p", port=80, protocol="TCP", node_port=spec.pop("node_port", 0)),)
    )
    ingress = tuple(core_v1.LoadBalancerIngress(**one) for one in spec.pop("ingress", ()))
    labels = spec.pop("labels", {})
    spec = {"type": "ClusterIP", "cluster_ip": address, "cluster_ips": (address,), **spec}
    return core_v1.Service(
        metadata=ObjectMeta(namespace="ns", name=name, labels=labels),
        spec=core_v1.ServiceSpec(ports=ports, **spec),
        status=core_v1.ServiceStatus(load_balancer=core_v1.LoadBalancerStatus(ingress=ingress)),
    )


def slice_of(
    service_name: str, *endpoints: discovery_v1.Endpoint, name: str = "", protocol: str = "TCP", **metadata: Any
) -> discovery_v1.EndpointSlice:
    """Return an EndpointSlice of a Service."""
    labels = {"kubernetes.io/service-name": service_name}
    return discovery_v1.EndpointSlice(
        metadata=ObjectMeta(namespace="ns", name=name or f"{service_name}-1", labels=labels, **metadata),
        address_type="IPv4",
        ports=(discovery_v1.EndpointPort(name="p", port=8080, protocol=protocol),),
        endpoints=endpoints,
    )


def ready(address: str, node: str = "elsewhere", **conditions: bool) -> discovery_v1.Endpoint:
    """Return an endpoint of a slice, which is ready unless the conditions say otherwise."""
    return discovery_v1.Endpoint(
        addresses=(address,),
        node_name=node,
        conditions=discovery_v1.EndpointConditions(**{"ready": True, **conditions}),
    )


def port_name(name: str, protocol: str = "TCP") -> ServicePortName:
    """Return the name of a Service's port."""
    return ServicePortName(NamespacedName("ns", name), "p", protocol)


def endpoints(*hosts: int, local: tuple[int, ...] = ()) -> list[EndpointInfo]:
    """Return ready endpoints, some of them on the node."""
    return [EndpointInfo(f"10.244.0.{host}", 8080, host in local) for host in hosts]


class TableBuilder:
    """Table with ports that are added one by one."""

    def __init__(self, settings: TableSettings = SETTINGS, service_cidrs: tuple[str, ...] = ()) -> None:
        self.table = ProxyTable(settings)
        self.table.set_chains(base_rules(settings, service_cidrs))
        if not settings.nodeport_addresses.match_all:
            self.table.set_node_elements([ElementKey(NODEPORT_IPS, NODE_IP)])

    def add(self, name: str, port: ServicePortInfo, rows: list[EndpointInfo]) -> TableBuilder:
        """Set a port with its endpoints."""
        full = port_name(name, port.protocol)
        selection = select_endpoints(rows, port, NodeTopology(NODE))
        self.table.set_port(full, build_port_rules(full, port, selection, self.table.settings))
        return self
