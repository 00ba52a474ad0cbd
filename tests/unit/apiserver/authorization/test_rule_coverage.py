# SPDX-License-Identifier: Apache-2.0
"""Rules that an author does not have: what one rule covers of another."""

from __future__ import annotations

import pytest

from kubeloop.apiserver.authorization.escalation import uncovered_rules
from kubeloop.apiserver.bootstrap.policy_notation import parse_rule


@pytest.mark.parametrize(
    ("owned", "granted", "missing"),
    [
        ("get: pods", "get: pods", []),
        ("get: pods", "get list: pods", ["list: pods"]),
        ("*: pods", "get: pods", []),
        ("get: pods", "*: pods", ["*: pods"]),
        ("get: pods @apps", "get: pods", ["get: pods"]),
        ("get: pods @*", "get: pods @apps", []),
        ("get: *", "get: pods/log", []),
        ("get: */log", "get: pods/log", []),
        ("get: */log", "get: pods/exec", ["get: pods/exec"]),
        ("get: */", "get: pods", ["get: pods"]),
        ("get: pods =a", "get: pods =a", []),
        ("get: pods =a", "get: pods", ["get: pods"]),
        ("get: pods =a", "get: pods =a,b", ["get: pods =b"]),
        ("get: url /healthz", "get: url /healthz", []),
        ("get: url /healthz", "get: url /healthz /version", ["get: url /version"]),
        ("get: url /a/*", "get: url /a/b", []),
        ("post: url /healthz", "get: url /healthz", ["get: url /healthz"]),
        ("get: *  @*", "get: url /healthz", ["get: url /healthz"]),
    ],
)
def test_rules_that_are_not_covered_are_returned(owned, granted, missing):
    assert uncovered_rules([parse_rule(owned)], [parse_rule(granted)]) == [parse_rule(one) for one in missing]
