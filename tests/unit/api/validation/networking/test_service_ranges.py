# SPDX-License-Identifier: Apache-2.0
"""Rules of IPAddresses and ServiceCIDRs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import DNS_SUBDOMAIN

ADDRESS = {"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": {"resource": "services", "name": "s"}}}
RANGE = {"spec": {"cidrs": ["10.0.0.0/24"]}}


def parent(**fields: Any) -> dict[str, Any]:
    return {"spec.parentRef": {"resource": "services", "name": "s", **fields}}


CASES = [
    *creates("ipaddresses.networking.k8s.io", ADDRESS, [
        ({"spec": {}}, ["spec.parentRef: Required value"]),
        (parent(group="G_"), ['spec.parentRef.group: Invalid value: "G_": ' + DNS_SUBDOMAIN]),
        (parent(resource=""), ["spec.parentRef.resource: Required value"]),
        (parent(name=""), ["spec.parentRef.name: Required value"]),
        (parent(resource="a/b"), ["spec.parentRef.resource: Invalid value: \"a/b\": may not contain '/'"]),
        (parent(namespace="a/b"), ["spec.parentRef.namespace: Invalid value: \"a/b\": may not contain '/'"]),
        ({"metadata": {"name": "x"}},
            ['metadata.name: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)']),
    ]),
    *updates("ipaddresses.networking.k8s.io", ADDRESS, [
        ({}, parent(name="t"), ["spec.parentRef: Invalid value: null: field is immutable"]),
        ({}, parent(name=""),
            ["spec.parentRef.name: Required value", "spec.parentRef: Invalid value: null: field is immutable"]),
    ]),
    *creates("servicecidrs.networking.k8s.io", RANGE, [
        ({"spec.cidrs": []}, ["spec.cidrs: Required value: at least one CIDR required"]),
        ({"spec.cidrs": ["10.0.0.0/24", "fd00::/64", "11.0.0.0/24"]},
            ['spec.cidrs: Invalid value: {"CIDRs":["10.0.0.0/24","fd00::/64","11.0.0.0/24"]}: may only hold up '
             "to 2 values"]),
        ({"spec.cidrs": ["x"]},
            ['spec.cidrs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)']),
        ({"spec.cidrs": ["10.0.0.0/24", "11.0.0.0/24"]},
            ['spec.cidrs: Invalid value: ["10.0.0.0/24","11.0.0.0/24"]: may specify no more than one IP for '
             "each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"]),
    ]),
    *updates("servicecidrs.networking.k8s.io", RANGE, [
        ({}, {"spec.cidrs": ["11.0.0.0/24"]}, ['spec.cidrs[0]: Invalid value: "11.0.0.0/24": field is immutable']),
        ({}, {"spec.cidrs": ["11.0.0.0/24", "fd00::/64"]},
            ['spec.cidrs[0]: Invalid value: "11.0.0.0/24": field is immutable']),
        ({}, {"spec.cidrs": ["10.0.0.0/24", "11.0.0.0/24"]},
            ['spec.cidrs: Invalid value: ["10.0.0.0/24","11.0.0.0/24"]: may specify no more than one IP for '
             "each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"]),
        ({}, {"spec.cidrs": None}, ["spec.cidrs: Invalid value: null: field is immutable"]),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_ranges_are_reported(case: Case) -> None:
    assert case.found() == case.errors
