# SPDX-License-Identifier: Apache-2.0
"""Warnings about services: ignored fields and non-canonical addresses."""

from __future__ import annotations

from collections.abc import Iterator

from kubeloop.api.generated.core_v1 import Service, ServiceSpec
from kubeloop.api.meta.field_path import FieldPath
from kubeloop.api.warnings.addresses import cidr_warnings, ip_warnings
from kubeloop.api.warnings.rules import Warnings

_HINTS = "service.kubernetes.io/topology-aware-hints"
_MODE = "service.kubernetes.io/topology-mode"
_SPEC = FieldPath("spec")


def _about(service: Service) -> Iterator[str]:
    spec = service.spec
    if _HINTS in service.metadata.annotations:
        yield f"annotation {_HINTS} is deprecated, please use {_MODE} instead"
    is_headless = spec.type == "ClusterIP" and spec.cluster_ip == "None"
    if spec.cluster_ip and spec.cluster_ip != "None" and spec.type != "ExternalName":
        for i, address in enumerate(spec.cluster_ips):
            yield from ip_warnings(_SPEC.child("clusterIPs").index(i), address)
    if is_headless:
        yield from _ignored_when_headless(spec)
    for i, address in enumerate(spec.external_ips):
        yield from ip_warnings(_SPEC.child("externalIPs").index(i), address)
    if spec.external_ips and not is_headless and spec.type != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if spec.load_balancer_ip:
        yield from ip_warnings(_SPEC.child("loadBalancerIP"), spec.load_balancer_ip)
    for i, network in enumerate(spec.load_balancer_source_ranges):
        yield from cidr_warnings(_SPEC.child("loadBalancerSourceRanges").index(i), network)
    if spec.type == "ExternalName" and spec.external_ips:
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if spec.type != "ExternalName" and spec.external_name:
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.traffic_distribution == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _ignored_when_headless(spec: ServiceSpec) -> Iterator[str]:
    if spec.load_balancer_ip:
        yield "spec.loadBalancerIP is ignored for headless services"
    if spec.external_ips:
        yield "spec.externalIPs is ignored for headless services"
    if spec.session_affinity != "None":
        yield "spec.SessionAffinity is ignored for headless services"


def _reported(new: Service, old: Service) -> list[str]:
    path = FieldPath("status").child("loadBalancer", "ingress")
    points = new.status.load_balancer.ingress
    return [warning for i, point in enumerate(points) for warning in ip_warnings(path.index(i), point.ip)]


SERVICE = Warnings(create=lambda service: [*_about(service)], update=lambda new, old: [*_about(new)], status=_reported)
