# SPDX-License-Identifier: Apache-2.0
"""Rules of NetworkPolicies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.manifests import altered
from tests.unit.api.validation.messages import QUALIFIED_NAME

POLICY = {"spec": {"podSelector": {}}}
WRONG = {"matchLabels": {"a b": "c"}}


def peer(**fields: Any) -> dict[str, Any]:
    return {"spec.ingress": [{"from": [fields]}]}


def port(**fields: Any) -> dict[str, Any]:
    return {"spec.ingress": [{"ports": [fields]}]}


def block(cidr: str, *excluded: str) -> dict[str, Any]:
    return peer(ipBlock={"cidr": cidr, "except": list(excluded)})


CASES = [
    *creates("networkpolicies.networking.k8s.io", POLICY, [
        ({"spec.podSelector": WRONG}, ['spec.podSelector.matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (port(protocol="P"),
            ['spec.ingress[0].ports[0].protocol: Unsupported value: "P": supported values: "TCP", "UDP", "SCTP"']),
        (port(port=65536),
            ["spec.ingress[0].ports[0].port: Invalid value: 65536: must be between 1 and 65535, inclusive"]),
        (port(port="P_"),
            [('spec.ingress[0].ports[0].port: Invalid value: "P_": must contain only alpha-numeric characters '
             "(a-z, 0-9), and hyphens (-)"),
             'spec.ingress[0].ports[0].port: Invalid value: "P_": must contain at least one letter (a-z)']),
        (port(port=80, endPort=79),
            ["spec.ingress[0].ports[0].endPort: Invalid value: 79: must be greater than or equal to `port`"]),
        (port(port=80, endPort=65536),
            ["spec.ingress[0].ports[0].endPort: Invalid value: 65536: must be between 1 and 65535, inclusive"]),
        (port(endPort=80),
            ["spec.ingress[0].ports[0].endPort: Invalid value: 80: may not be specified when `port` is not "
             "specified"]),
        (port(port="p", endPort=80),
            ["spec.ingress[0].ports[0].endPort: Invalid value: 80: may not be specified when `port` is non-numeric"]),
        (peer(), ["spec.ingress[0].from[0]: Required value: must specify a peer"]),
        (peer(podSelector=WRONG),
            ['spec.ingress[0].from[0].podSelector.matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (peer(namespaceSelector=WRONG),
            ['spec.ingress[0].from[0].namespaceSelector.matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (peer(podSelector={}, ipBlock={"cidr": "10.0.0.0/8"}),
            ["spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer"]),
        (block(""), ["spec.ingress[0].from[0].ipBlock.cidr: Required value"]),
        (block("x"),
            ['spec.ingress[0].from[0].ipBlock.cidr: Invalid value: "x": must be a valid CIDR value, (e.g. '
             "10.9.8.0/24 or 2001:db8::/64)"]),
        (block("10.0.0.0/8", "x"),
            ['spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "x": must be a valid CIDR value, (e.g. '
             "10.9.8.0/24 or 2001:db8::/64)"]),
        (block("10.0.0.0/8", "11.0.0.0/9"),
            ['spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "11.0.0.0/9": must be a strict subset '
             "of `cidr`"]),
        (block("10.0.0.0/8", "10.0.0.0/8"),
            ['spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: "10.0.0.0/8": must be a strict subset '
             "of `cidr`"]),
        ({"spec.egress": [{"to": [{}]}]}, ["spec.egress[0].to[0]: Required value: must specify a peer"]),
        ({"spec.egress": [{"ports": [{"port": 65536}]}]},
            ["spec.egress[0].ports[0].port: Invalid value: 65536: must be between 1 and 65535, inclusive"]),
        ({"spec.policyTypes": ["T"]},
            ['spec.policyTypes[0]: Unsupported value: "T": supported values: "Ingress", "Egress"']),
        ({"spec.policyTypes": ["Ingress", "Egress", "Egress"]},
            ['spec.policyTypes: Invalid value: ["Ingress","Egress","Egress"]: may not specify more than two '
             "policyTypes"]),
    ]),
    *updates("networkpolicies.networking.k8s.io", POLICY, [
        ({}, {"spec.policyTypes": ["T"]},
            ['spec.policyTypes[0]: Unsupported value: "T": supported values: "Ingress", "Egress"']),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_policies_are_reported(case: Case) -> None:
    assert case.found() == case.errors


@pytest.mark.parametrize("cidr", ["010.0.0.0/8", "10.0.0.1/8"])
def test_an_update_keeps_cidrs_that_are_no_longer_valid(cidr: str) -> None:
    ingress = altered(POLICY, {"spec.ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/7", "except": [cidr]}}]}]})
    egress = altered(POLICY, {"spec.egress": [{"to": [{"ipBlock": {"cidr": cidr}}]}]})
    for policy in (ingress, egress):
        assert Case("networkpolicies.networking.k8s.io", policy, [], policy).found() == []
        assert Case("networkpolicies.networking.k8s.io", policy, [], POLICY).found() != []
