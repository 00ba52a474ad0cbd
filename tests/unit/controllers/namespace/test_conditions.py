# SPDX-License-Identifier: Apache-2.0
"""Tests of namespace conditions, estimated deletion times, and remaining content."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from kubeloop.api.errors import InternalError
from kubeloop.api.generated.core_v1 import Pod, PodSpec, PodStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.api.scalars.times import parse_time
from kubeloop.api.scalars.wire import Time
from kubeloop.client.discovery.served_resources import ServedResources
from kubeloop.controllers.namespace.conditions import (
    DeletionFindings,
    changed_conditions,
    conditions_after,
    discovery_failure,
    parsing_failure,
)
from kubeloop.controllers.namespace.content import (
    FINALIZER_SECONDS,
    ContentRemainingError,
    estimate_grace_seconds,
    evaluate_remaining,
)

BEFORE, NOW = Time("2026-01-01T00:00:00Z"), Time("2026-01-01T00:01:00Z")
THINGS = Resource("example.com", "v1", "things", "Thing")


def pod(grace: int | None, phase: str = "Running") -> Pod:
    return Pod(spec=PodSpec(termination_grace_period_seconds=grace), status=PodStatus(phase=phase))


def test_conditions_start_healthy_and_are_stable() -> None:
    first = conditions_after((), DeletionFindings(), BEFORE)
    assert {one.status for one in first} == {"False"}
    assert len(first) == 5
    again = conditions_after(first, DeletionFindings(), NOW)
    assert changed_conditions(first, again) == []


def test_transition_time_changes_with_the_status_only() -> None:
    first = conditions_after((), DeletionFindings(remaining=Counter({"things.example.com": 2})), BEFORE)
    less = conditions_after(first, DeletionFindings(remaining=Counter({"things.example.com": 1})), NOW)
    (told,) = changed_conditions(first, less)
    assert told.message == "Some resources are remaining: things.example.com has 1 resource instances"
    assert told.last_transition_time == BEFORE
    (well,) = changed_conditions(less, conditions_after(less, DeletionFindings(), NOW))
    assert (well.status, well.reason, well.last_transition_time) == ("False", "ContentRemoved", NOW)


def test_failures_are_reported_in_order() -> None:
    findings = DeletionFindings(failures=[InternalError("second"), InternalError("first")])
    (told,) = [one for one in conditions_after((), findings, NOW) if one.status == "True"]
    assert told.type == "NamespaceDeletionContentFailure"
    assert told.message == "Failed to delete all resource types, 2 remaining: first, second"
    assert findings.errors == findings.failures


def test_discovery_failures_are_reported() -> None:
    served = ServedResources(
        (("v1",), ("a/v1", "a/b/v1")), {}, {"b/v1": InternalError("no"), "a/v1": InternalError("never")}
    )
    why = "unable to retrieve the complete list of server APIs: a/v1: never, b/v1: no"
    assert discovery_failure(served) == f"Discovery failed for some groups, 2 failing: {why}"
    assert parsing_failure(served) == "unexpected GroupVersion string: a/b/v1"
    told = conditions_after((), DeletionFindings(discovery="x", parsing="y"), NOW)
    assert [one.reason for one in told if one.status == "True"] == ["DiscoveryFailed", "GroupVersionParsingFailed"]
    assert len(DeletionFindings(discovery="x", parsing="y").errors) == 2


@pytest.mark.parametrize(
    ("pods", "after", "seconds"),
    [
        ([pod(30), pod(60), pod(90, "Succeeded"), pod(None)], 10, 60),
        ([pod(30)], 30, 0),
        ([pod(30)], 29, 30),
        ([], 0, 0),
    ],
)
def test_estimate_is_the_longest_grace_period(pods: list[Pod], after: int, seconds: int) -> None:
    deleted = parse_time(BEFORE)
    assert estimate_grace_seconds(pods, deleted, deleted + timedelta(seconds=after)) == seconds


def test_remaining_content_is_waiting_or_failed() -> None:
    plain, held = ObjectMeta(name="a"), ObjectMeta(name="b", finalizers=("x/y", "x/z"))
    assert evaluate_remaining(THINGS, "ns", [], 30).seconds == 0
    assert evaluate_remaining(THINGS, "ns", [plain], 30).seconds == 30
    left = evaluate_remaining(THINGS, "ns", [plain, held], 0)
    assert (left.seconds, left.finalizers()) == (FINALIZER_SECONDS, {"x/y": 1, "x/z": 1})
    wrong = evaluate_remaining(THINGS, "ns", [plain], 0).failure
    assert isinstance(wrong, ContentRemainingError)
    what = "example.com/v1, Resource=things"
    assert str(wrong) == f"unexpected items still remain in namespace: ns for gvr: {what}"
