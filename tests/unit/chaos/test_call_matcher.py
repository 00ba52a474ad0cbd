# SPDX-License-Identifier: Apache-2.0
"""Calls are selected by verb, resource and name."""

from __future__ import annotations

import pytest

from kubeloop.chaos.call_matcher import CallMatcher


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        (CallMatcher(), True),
        (CallMatcher(verbs=("patch", "create")), True),
        (CallMatcher(verbs=("write",)), True),
        (CallMatcher(verbs=("read",)), False),
        (CallMatcher(verbs=("get",)), False),
        (CallMatcher(resources=("deployments",)), True),
        (CallMatcher(resources=("deployments.apps",)), True),
        (CallMatcher(resources=("deployments.extensions", "apps")), False),
        (CallMatcher(names=("web",)), True),
        (CallMatcher(names=("db",)), False),
        (CallMatcher(verbs=("write",), resources=("deployments",), names=("db",)), False),
    ],
)
def test_every_selector_must_match_and_an_empty_one_does(matcher: CallMatcher, expected: bool) -> None:
    assert matcher.matches("patch", "deployments.apps", "web") is expected


@pytest.mark.parametrize("verb", ["get", "list", "watch"])
def test_reads_are_not_writes(verb: str) -> None:
    assert CallMatcher(verbs=("read",)).matches(verb, "pods")
    assert not CallMatcher(verbs=("write",)).matches(verb, "pods")
