# SPDX-License-Identifier: Apache-2.0
"""Rules of Endpoints."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import DNS_LABEL, DNS_SUBDOMAIN, QUALIFIED_NAME

ENDPOINTS = {"subsets": [{"addresses": [{"ip": "1.1.1.1"}], "ports": [{"port": 80}]}]}


def address(**fields: Any) -> dict[str, Any]:
    return {"subsets.0.addresses": [{"ip": "1.1.1.1", **fields}]}


def port(**fields: Any) -> dict[str, Any]:
    return {"subsets.0.ports": [{"port": 80, **fields}]}


CASES = [
    *creates("endpoints", ENDPOINTS, [
        ({"subsets": [{}]}, ["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"]),
        (address(ip="x"),
            [('subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or '
             "2001:db8::ffff)"),
             'subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP address']),
        (address(ip="0.0.0.0"),
            ['subsets[0].addresses[0].ip: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)']),
        (address(ip="127.0.0.1"),
            ['subsets[0].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range '
             "(127.0.0.0/8, ::1/128)"]),
        (address(ip="169.254.0.1"),
            ['subsets[0].addresses[0].ip: Invalid value: "169.254.0.1": may not be in the link-local range '
             "(169.254.0.0/16, fe80::/10)"]),
        (address(ip="224.0.0.1"),
            ['subsets[0].addresses[0].ip: Invalid value: "224.0.0.1": may not be in the link-local multicast '
             "range (224.0.0.0/24, ff02::/10)"]),
        (address(ip="ff02::1"),
            ['subsets[0].addresses[0].ip: Invalid value: "ff02::1": may not be in the link-local multicast '
             "range (224.0.0.0/24, ff02::/10)"]),
        (address(hostname="H_"), ['subsets[0].addresses[0].hostname: Invalid value: "H_": ' + DNS_LABEL]),
        (address(nodeName="N_"), ['subsets[0].addresses[0].nodeName: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
        ({"subsets": [{"notReadyAddresses": [{"ip": "x"}]}]},
            [('subsets[0].notReadyAddresses[0].ip: Invalid value: "x": must be a valid IP address, (e.g. '
             "10.9.8.7 or 2001:db8::ffff)"),
             'subsets[0].notReadyAddresses[0].ip: Invalid value: "x": must be a valid IP address']),
        (port(name="P_"), ['subsets[0].ports[0].name: Invalid value: "P_": ' + DNS_LABEL]),
        ({"subsets.0.ports": [{"port": 80, "name": "p"}, {"port": 81}]},
            ["subsets[0].ports[1].name: Required value"]),
        (port(port=0), ["subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"]),
        (port(protocol="P"),
            ['subsets[0].ports[0].protocol: Unsupported value: "P": supported values: "SCTP", "TCP", "UDP"']),
        (port(appProtocol="a b"), ['subsets[0].ports[0].appProtocol: Invalid value: "a b": ' + QUALIFIED_NAME]),
    ]),
    *updates("endpoints", ENDPOINTS, [
        ({}, address(ip="x"),
            [('subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or '
             "2001:db8::ffff)"),
             'subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP address']),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_endpoints_are_reported(case: Case) -> None:
    assert case.found() == case.errors
