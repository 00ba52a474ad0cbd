# SPDX-License-Identifier: Apache-2.0
"""Rules of EndpointSlices."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import DNS_LABEL, DNS_SUBDOMAIN, LABEL_VALUE, QUALIFIED_NAME

SLICE = {"addressType": "IPv4", "endpoints": [{"addresses": ["1.1.1.1"]}], "ports": [{"name": "p", "port": 80}]}


def endpoint(**fields: Any) -> dict[str, Any]:
    return {"endpoints": [{"addresses": ["1.1.1.1"], **fields}]}


def port(**fields: Any) -> dict[str, Any]:
    return {"ports": [{"name": "p", "port": 80, **fields}]}


def hints(**fields: Any) -> dict[str, Any]:
    return endpoint(hints=fields)


CASES = [
    *creates("endpointslices.discovery.k8s.io", SLICE, [
        ({"addressType": "A"}, ['addressType: Unsupported value: "A": supported values: "FQDN", "IPv4", "IPv6"']),
        ({"addressType": ""}, ["addressType: Required value"]),
        ({"ports": [{"name": f"p{number}", "port": 1} for number in range(20001)]},
            ["ports: Too many: 20001: must have at most 20000 items"]),
        (port(name="P_"), ['ports[0].name: Invalid value: "P_": ' + DNS_LABEL]),
        ({"ports": [{"name": "p", "port": 80}, {"name": "p", "port": 81}]}, ['ports[1].name: Duplicate value: "p"']),
        (port(protocol="P"), ['ports[0].protocol: Unsupported value: "P": supported values: "SCTP", "TCP", "UDP"']),
        (port(appProtocol="a b"), ['ports[0].appProtocol: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"endpoints": [{"addresses": ["1.1.1.1"]}] * 1001},
            ["endpoints: Too many: 1001: must have at most 1000 items"]),
        (endpoint(addresses=[]), ["endpoints[0].addresses: Required value"]),
        (endpoint(addresses=[f"1.1.1.{number}" for number in range(101)]),
            ["endpoints[0].addresses: Too many: 101: must have at most 100 items"]),
        (endpoint(addresses=["x"]),
            ['endpoints[0].addresses[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or '
             "2001:db8::ffff)"]),
        (endpoint(addresses=["fd00::1"]),
            ['endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address']),
        (endpoint(addresses=["0.0.0.0"]),
            ['endpoints[0].addresses[0]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)']),
        (endpoint(addresses=["127.0.0.1"]),
            ['endpoints[0].addresses[0]: Invalid value: "127.0.0.1": may not be in the loopback range '
             "(127.0.0.0/8, ::1/128)"]),
        (endpoint(addresses=["169.254.0.1"]),
            ['endpoints[0].addresses[0]: Invalid value: "169.254.0.1": may not be in the link-local range '
             "(169.254.0.0/16, fe80::/10)"]),
        (endpoint(addresses=["224.0.0.1"]),
            ['endpoints[0].addresses[0]: Invalid value: "224.0.0.1": may not be in the link-local multicast '
             "range (224.0.0.0/24, ff02::/10)"]),
        ({"addressType": "IPv6", **endpoint()},
            ['endpoints[0].addresses: Invalid value: "1.1.1.1": must be an IPv6 address']),
        ({"addressType": "FQDN", **endpoint(addresses=["F_"])},
            ['endpoints[0].addresses[0]: Invalid value: "F_": ' + DNS_SUBDOMAIN]),
        (endpoint(nodeName="N_"), ['endpoints[0].nodeName: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
        (endpoint(hostname="H_"), ['endpoints[0].hostname: Invalid value: "H_": ' + DNS_LABEL]),
        (hints(forZones=[{"name": f"z{number}"} for number in range(9)]),
            ["endpoints[0].hints.forZones: Too many: 9: must have at most 8 items"]),
        (hints(forZones=[{"name": "z"}, {"name": "z"}]),
            ['endpoints[0].hints.forZones[1].name: Duplicate value: "z"']),
        (hints(forZones=[{"name": "a b"}]),
            ['endpoints[0].hints.forZones[0].name: Invalid value: "a b": ' + LABEL_VALUE]),
        (hints(forNodes=[{"name": f"n{number}"} for number in range(9)]),
            ["endpoints[0].hints.forNodes: Too many: 9: must have at most 8 items"]),
        (hints(forNodes=[{"name": "N_"}]),
            ['endpoints[0].hints.forNodes[0].name: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
    ]),
    *updates("endpointslices.discovery.k8s.io", SLICE, [
        ({}, {"addressType": "FQDN", "endpoints": []}, ["addressType: Invalid value: null: field is immutable"]),
        ({}, port(name="P_"), ['ports[0].name: Invalid value: "P_": ' + DNS_LABEL]),
        ({}, endpoint(nodeName="N_"), ['endpoints[0].nodeName: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_slices_are_reported(case: Case) -> None:
    assert case.found() == case.errors
