# SPDX-License-Identifier: Apache-2.0
"""Rules of Services: types, ports, traffic, load balancers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import DNS_LABEL, DNS_SUBDOMAIN, QUALIFIED_NAME

SERVICE = {"spec": {"ports": [{"port": 80, "targetPort": 80}], "type": "ClusterIP"}}
BALANCER = {"spec": {"ports": [{"port": 80, "targetPort": 80}], "type": "LoadBalancer"}}
EXTERNAL = {"spec": {"type": "ExternalName", "externalName": "example.com"}}
HINTS = "service.kubernetes.io/topology-aware-hints"
MODE = "service.kubernetes.io/topology-mode"
RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
PORT = {"port": 80, "targetPort": 80}


def ports(*ports: dict[str, Any], **spec: Any) -> dict[str, Any]:
    fields = {f"spec.{name}": value for name, value in spec.items()}
    return {"spec.ports": list(ports), **fields}


def affinity(**client: Any) -> dict[str, Any]:
    return {"spec.sessionAffinity": "ClientIP", "spec.sessionAffinityConfig": client}


def ingress(**fields: Any) -> dict[str, Any]:
    return {"status.loadBalancer": {"ingress": [fields]}}


CASES = [
    *creates("services", SERVICE, [
        ({"metadata": {"annotations": {HINTS: "Auto", MODE: "Disabled"}}},
            ['metadata.annotations[service.kubernetes.io/topology-mode]: Invalid value: "Disabled": must match '
             "annotations[service.kubernetes.io/topology-aware-hints] when both are specified"]),
        (ports(), ["spec.ports: Required value"]),
        (ports({**PORT, "name": "P_"}), ['spec.ports[0].name: Invalid value: "P_": ' + DNS_LABEL]),
        (ports({**PORT, "name": "p"}, {**PORT, "port": 81, "name": "p"}),
            ['spec.ports[1].name: Duplicate value: "p"']),
        (ports({**PORT, "name": "p"}, {**PORT, "port": 81}), ["spec.ports[1].name: Required value"]),
        (ports({**PORT, "port": 0}),
            ["spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"]),
        (ports({**PORT, "protocol": "P"}),
            ['spec.ports[0].protocol: Unsupported value: "P": supported values: "SCTP", "TCP", "UDP"']),
        (ports({**PORT, "targetPort": 65536}),
            ["spec.ports[0].targetPort: Invalid value: 65536: must be between 1 and 65535, inclusive"]),
        (ports({**PORT, "targetPort": "T_"}),
            [('spec.ports[0].targetPort: Invalid value: "T_": must contain only alpha-numeric characters (a-z, '
             "0-9), and hyphens (-)"),
             'spec.ports[0].targetPort: Invalid value: "T_": must contain at least one letter (a-z)']),
        (ports({**PORT, "appProtocol": "a b"}),
            ['spec.ports[0].appProtocol: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (ports({**PORT, "name": "p"}, {**PORT, "name": "q"}),
            ["spec.ports[1]: Duplicate value: "
             '{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}']),
        (ports({**PORT, "nodePort": 30000}),
            ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"]),
        ({"spec.selector": {"a b": "c"}}, ['spec.selector: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"spec.sessionAffinity": "S"},
            ['spec.sessionAffinity: Unsupported value: "S": supported values: "ClientIP", "None"']),
        (affinity(clientIP={"timeoutSeconds": 0}),
            ["spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and "
             "less than 86400"]),
        (affinity(clientIP={"timeoutSeconds": 86401}),
            ["spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 "
             "and less than 86400"]),
        ({"spec.externalIPs": ["x"]},
            ['spec.externalIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or '
             "2001:db8::ffff)"]),
        ({"spec.externalIPs": ["127.0.0.1"]},
            ['spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, '
             "::1/128)"]),
        ({"spec.type": "T"},
            ['spec.type: Unsupported value: "T": supported values: "ClusterIP", "ExternalName", "LoadBalancer", '
             '"NodePort"']),
        ({"spec.loadBalancerSourceRanges": ["10.0.0.0/8"]},
            ["spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"]),
        ({"metadata": {"annotations": {RANGES: "10.0.0.0/8"}}},
            ["metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Forbidden: may only "
             "be used when `type` is 'LoadBalancer'"]),
        ({"spec.allocateLoadBalancerNodePorts": True},
            ["spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'"]),
        ({"spec.loadBalancerClass": "example.com/c"},
            ["spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"]),
        ({"spec.externalTrafficPolicy": "Local"},
            ['spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible '
             "services"]),
        ({"spec.externalIPs": ["1.1.1.1"], "spec.externalTrafficPolicy": "E"},
            ['spec.externalTrafficPolicy: Unsupported value: "E": supported values: "Cluster", "Local"']),
        ({"spec.healthCheckNodePort": 30000},
            ["spec.healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and "
             "`externalTrafficPolicy` is 'Local'"]),
        ({"spec.internalTrafficPolicy": "I"},
            ['spec.internalTrafficPolicy: Unsupported value: "I": supported values: "Cluster", "Local"']),
        ({"spec.trafficDistribution": "T"},
            ['spec.trafficDistribution: Unsupported value: "T": supported values: "PreferClose", '
             '"PreferSameZone", "PreferSameNode"']),
        ({"spec.type": "NodePort", "spec.clusterIP": "None", "spec.clusterIPs": ["None"]},
            ["spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"]),
    ]),
    *creates("services", EXTERNAL, [
        ({"spec.externalName": ""}, ["spec.externalName: Required value"]),
        ({"spec.externalName": "E_"}, ['spec.externalName: Invalid value: "E_": ' + DNS_SUBDOMAIN]),
        ({"spec.clusterIPs": ["10.0.0.1"]}, ["spec.clusterIPs: Forbidden: may not be set for ExternalName services"]),
        ({"spec.ipFamilies": ["IPv4"]}, ["spec.ipFamilies: Forbidden: may not be set for ExternalName services"]),
        ({"spec.ipFamilyPolicy": "SingleStack"},
            ["spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services"]),
    ]),
    *creates("services", BALANCER, [
        ({"spec.loadBalancerSourceRanges": ["x"]},
            ['spec.LoadBalancerSourceRanges[0]: Invalid value: "x": must be a valid CIDR value, (e.g. '
             "10.9.8.0/24 or 2001:db8::/64)"]),
        ({"metadata": {"annotations": {RANGES: "x"}}},
            ['metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Invalid value: "x": '
             "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]),
        ({"spec.loadBalancerClass": "a b"}, ['spec.loadBalancerClass: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"spec.externalTrafficPolicy": "E"},
            ['spec.externalTrafficPolicy: Unsupported value: "E": supported values: "Cluster", "Local"']),
        ({"spec.externalTrafficPolicy": "Local", "spec.healthCheckNodePort": 65536},
            ["spec.healthCheckNodePort: Invalid value: 65536: must be between 1 and 65535, inclusive"]),
    ]),
    *updates("services", BALANCER, [
        ({"spec.loadBalancerClass": "example.com/a"}, {"spec.loadBalancerClass": "example.com/b"},
            ['spec.loadBalancerClass: Invalid value: "example.com/b": may not change once set']),
        ({"spec.externalTrafficPolicy": "Local", "spec.healthCheckNodePort": 30000},
         {"spec.externalTrafficPolicy": "Local", "spec.healthCheckNodePort": 30001},
         ["spec.healthCheckNodePort: Forbidden: field is immutable"]),
        ({}, {"spec.internalTrafficPolicy": "I"},
            ['spec.internalTrafficPolicy: Unsupported value: "I": supported values: "Cluster", "Local"']),
    ]),
    *updates("services", BALANCER, [
        ({}, ingress(ip="x"),
            ['status.loadBalancer.ingress[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 '
             "or 2001:db8::ffff)"]),
        ({}, ingress(ip="1.1.1.1", ipMode="M"),
            ['status.loadBalancer.ingress[0].ipMode: Unsupported value: "M": supported values: "Proxy", "VIP"']),
        ({}, ingress(hostname="h", ipMode="VIP"),
            ["status.loadBalancer.ingress[0].ipMode: Forbidden: may not be specified when `ip` is not set"]),
        ({}, ingress(hostname="H_"),
            ['status.loadBalancer.ingress[0].hostname: Invalid value: "H_": ' + DNS_SUBDOMAIN]),
        ({}, ingress(hostname="1.1.1.1"),
            ['status.loadBalancer.ingress[0].hostname: Invalid value: "1.1.1.1": must be a DNS name, not an IP '
             "address"]),
    ], "status"),
    *updates("services", SERVICE, [
        ({}, ingress(ip="1.1.1.1"),
            ["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"]),
    ], "status"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_services_are_reported(case: Case) -> None:
    assert case.found() == case.errors
