# SPDX-License-Identifier: Apache-2.0
"""Rules of cluster IPs and IP families of Services."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates

SERVICE = {"spec": {"ports": [{"port": 80, "targetPort": 80}], "type": "ClusterIP"}}
SINGLE = {"ipFamilyPolicy": "SingleStack"}
DUAL = {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}


def ips(*addresses: str, **spec: Any) -> dict[str, Any]:
    first = {"spec.clusterIP": addresses[0]} if addresses else {}
    return {**first, "spec.clusterIPs": list(addresses), **{f"spec.{name}": value for name, value in spec.items()}}


CASES = [
    *creates("services", SERVICE, [
        ({"spec.clusterIP": "10.96.0.5", "spec.clusterIPs": ["10.96.0.6"]},
            ['spec.clusterIPs: Invalid value: ["10.96.0.6"]: first value must match `clusterIP`']),
        ({"spec.clusterIPs": ["10.96.0.5"]},
            ['spec.clusterIPs: Invalid value: ["10.96.0.5"]: must be empty when `clusterIP` is not specified']),
        ({"spec.ipFamilies": ["F"]},
            ['spec.ipFamilies[0]: Unsupported value: "F": supported values: "IPv4", "IPv6"']),
        ({"spec.ipFamilies": ["IPv4", "IPv4"]}, ['spec.ipFamilies[1]: Duplicate value: "IPv4"']),
        ({"spec.ipFamilyPolicy": "P"},
            ['spec.ipFamilyPolicy: Unsupported value: "P": supported values: "PreferDualStack", '
             '"RequireDualStack", "SingleStack"']),
        (ips("x"),
            ['spec.clusterIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or '
             "2001:db8::ffff)"]),
        (ips("None", "10.96.0.5"),
            ["spec.clusterIPs: Invalid value: [\"None\",\"10.96.0.5\"]: 'None' must be the first and only value"]),
        (ips("10.96.0.5", "fd00:10::5", "10.96.0.6", **DUAL),
            ['spec.clusterIPs: Invalid value: ["10.96.0.5","fd00:10::5","10.96.0.6"]: may only hold up to 2 values']),
        (ips("10.96.0.5", "10.96.0.6", **DUAL),
            [('spec.clusterIPs: Invalid value: ["10.96.0.5","10.96.0.6"]: may specify no more than one IP for '
             "each IP family"),
             ('spec.clusterIPs[1]: Invalid value: "10.96.0.6": expected an IPv6 value as indicated by '
             "`ipFamilies[1]`")]),
        (ips("10.96.0.5", ipFamilies=["IPv6"]),
            ['spec.clusterIPs[0]: Invalid value: "10.96.0.5": expected an IPv6 value as indicated by '
             "`ipFamilies[0]`"]),
    ]),
    *updates("services", SERVICE, [
        (ips("10.96.0.5", ipFamilies=["IPv4"]), ips("fd00:10::5", ipFamilies=["IPv6"]),
            ['spec.clusterIPs[0]: Invalid value: ["fd00:10::5"]: may not change once set',
             'spec.ipFamilies[0]: Invalid value: ["IPv6"]: may not change once set']),
        (ips("10.96.0.5"), ips("10.96.0.6"),
            ['spec.clusterIPs[0]: Invalid value: ["10.96.0.6"]: may not change once set']),
        (ips("10.96.0.5", "fd00:10::5", **DUAL), ips("10.96.0.6", ipFamilies=["IPv4"], **SINGLE),
            ['spec.clusterIPs[0]: Invalid value: ["10.96.0.6"]: may not change once set']),
        (ips("10.96.0.5", "fd00:10::5", **DUAL), ips("fd00:10::6", ipFamilies=["IPv6"], **SINGLE),
            ['spec.clusterIPs[0]: Invalid value: ["fd00:10::6"]: may not change once set',
             'spec.ipFamilies[0]: Invalid value: ["fd00:10::6"]: may not change once set']),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_addresses_are_reported(case: Case) -> None:
    assert case.found() == case.errors
