# SPDX-License-Identifier: Apache-2.0
"""Warnings about endpoints, ingresses and network policies: mostly non-canonical addresses."""

from __future__ import annotations

from collections.abc import Iterator

from kubeloop.api.generated.core_v1 import Endpoints
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.api.generated.networking_v1 import Ingress, NetworkPolicy, NetworkPolicyPeer
from kubeloop.api.meta.field_path import FieldPath
from kubeloop.api.warnings.addresses import cidr_warnings, ip_warnings
from kubeloop.api.warnings.rules import Warnings, on_every_write

_INGRESS_CLASS = "kubernetes.io/ingress.class"
# The control plane's own controllers write canonical addresses.
_ENDPOINTS_MANAGER = ("endpoints.kubernetes.io/managed-by", ("endpoint-controller",))
_SLICE_MANAGERS = (
    "endpointslice.kubernetes.io/managed-by",
    ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"),
)


def _of_endpoints(endpoints: Endpoints) -> list[str]:
    label, managers = _ENDPOINTS_MANAGER
    if endpoints.metadata.labels.get(label) in managers:
        return []
    return [
        warning
        for i, subset in enumerate(endpoints.subsets)
        for name, addresses in (("addresses", subset.addresses), ("notReadyAddresses", subset.not_ready_addresses))
        for j, address in enumerate(addresses)
        for warning in ip_warnings(FieldPath("subsets").index(i).child(name).index(j).child("ip"), address.ip)
    ]


def _of_slice(endpoints: EndpointSlice) -> list[str]:
    label, managers = _SLICE_MANAGERS
    if endpoints.metadata.labels.get(label) in managers:
        return []
    return [
        warning
        for i, endpoint in enumerate(endpoints.endpoints or ())
        for j, address in enumerate(endpoint.addresses or ())
        for warning in ip_warnings(FieldPath("endpoints").index(i).child("addresses").index(j), address)
    ]


def _slice_created(endpoints: EndpointSlice) -> list[str]:
    is_named = endpoints.address_type == "FQDN"
    return [*(["spec.addressType: FQDN endpoints are deprecated"] if is_named else ()), *_of_slice(endpoints)]


def _ingress_created(ingress: Ingress) -> list[str]:
    if _INGRESS_CLASS not in ingress.metadata.annotations or ingress.spec.ingress_class_name is not None:
        return []
    return [f"annotation \"{_INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"]


def _ingress_reported(new: Ingress, old: Ingress) -> list[str]:
    path = FieldPath("status").child("loadBalancer", "ingress")
    points = new.status.load_balancer.ingress
    return [warning for i, point in enumerate(points) for warning in ip_warnings(path.index(i), point.ip)]


def _of_policy(policy: NetworkPolicy) -> list[str]:
    spec = FieldPath("spec")
    ingress = [
        warning
        for i, rule in enumerate(policy.spec.ingress)
        for j, peer in enumerate(rule.from_)
        for warning in _of_peer(peer, spec.child("ingress").index(i).child("from").index(j))
    ]
    egress = [
        warning
        for i, way_out in enumerate(policy.spec.egress)
        for j, peer in enumerate(way_out.to)
        for warning in _of_peer(peer, spec.child("egress").index(i).child("to").index(j))
    ]
    return ingress + egress


def _of_peer(peer: NetworkPolicyPeer, path: FieldPath) -> Iterator[str]:
    block = peer.ip_block
    if block is not None:
        yield from cidr_warnings(path.child("ipBlock", "cidr"), block.cidr)
        for k, network in enumerate(block.except_):
            yield from cidr_warnings(path.child("ipBlock", "except").index(k), network)


ENDPOINTS = on_every_write(_of_endpoints)
ENDPOINT_SLICE = Warnings(create=_slice_created, update=lambda new, old: _of_slice(new))
INGRESS = Warnings(create=_ingress_created, status=_ingress_reported)
NETWORK_POLICY = on_every_write(_of_policy)
