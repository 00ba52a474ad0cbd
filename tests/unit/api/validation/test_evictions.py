# SPDX-License-Identifier: Apache-2.0
"""Validation tests of eviction requests, evictions and the responders of pods."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kubeloop.api.features.gates import parse_feature_gates
from kubeloop.api.validation import ObjectValidator
from tests.unit.api.validation.manifests import Manifest, altered, create_problems, decoded, update_problems

REQUESTS = "evictionrequests.lifecycle.k8s.io"
EVICTIONS = "evictions.lifecycle.k8s.io"
FEATURES = parse_feature_gates(["EvictionRequestAPI=true"])
NOW = datetime(2026, 5, 10, 12, tzinfo=UTC)
UID = "0b31b5ef-9d8b-4b3a-93b9-8ea1c8a7f2f6"
TARGET: Any = {"pod": {"name": "web", "uid": UID}}
REQUEST: Any = {"spec": {"target": TARGET, "requester": "drain.example.com/node", "intent": "Eviction"}}
EVICTION: Any = {"spec": {"target": TARGET}}
RESERVED = "domain names *.k8s.io, *.kubernetes.io are reserved"
FIRST, SECOND = "save.example.com/state", "imperative-eviction.k8s.io/evictor"


def moment(minutes: float) -> str:
    """Return the time so many minutes from now."""
    return datetime.fromtimestamp(NOW.timestamp() + minutes * 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def status(first: str, second: str = "Inactive", *, conditions: Any = (), **report: Any) -> Manifest:
    """Return an Eviction with two responders in these states; the first one reports."""
    responders = [
        {"name": FIRST, "priority": 5000, "state": first},
        {"name": SECOND, "priority": 100, "state": second},
    ]
    reports = [{"name": FIRST, **report}, {"name": SECOND}]
    if second == "Active":
        reports[1]["startTime"] = moment(0)
    return altered(
        EVICTION,
        {"status": {"targetResponders": responders, "responders": reports, "conditions": list(conditions)}},
    )


def condition(kind: str, value: str = "True", reason: str = "R") -> dict[str, str]:
    return {"type": kind, "status": value, "reason": reason, "message": "", "lastTransitionTime": moment(0)}


def status_problems(old: Manifest, new: Manifest) -> list[str]:
    """Return the errors of an update of the status of an Eviction."""
    stored = {"metadata": {"resourceVersion": "1", "uid": "u"}}
    before, after = (decoded(EVICTIONS, {**one, **stored}) for one in (old, new))
    errors = ObjectValidator(FEATURES, now=lambda: NOW).validate_update(after, before, "status")
    return sorted(error.message() for error in errors)


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("spec.requester", "", "spec.requester: Required value"),
        (
            "spec.requester",
            "me",
            "spec.requester: Invalid value: \"me\": must include a prefix (e.g. 'example.com/key')",
        ),
        ("spec.requester", "a.k8s.io/x", f'spec.requester: Invalid value: "a.k8s.io/x": {RESERVED}'),
        ("spec.intent", "", "spec.intent: Required value"),
        ("spec.intent", "Now", 'spec.intent: Unsupported value: "Now": supported values: "Eviction", "Withdrawn"'),
        ("spec.target", {}, 'spec.target: Invalid value: "": must specify one of: `pod`'),
        ("spec.target.pod.name", "", "spec.target.pod.name: Required value"),
        (
            "spec.target.pod.uid",
            UID.upper(),
            f'spec.target.pod.uid: Invalid value: "{UID.upper()}": must be a lowercase UUID in 8-4-4-4-12 format',
        ),
    ],
)
def test_a_request_with_one_bad_field(path: str, value: Any, problem: str) -> None:
    assert create_problems(REQUESTS, altered(REQUEST, {path: value}), FEATURES) == [problem]


@pytest.mark.parametrize("requester", ["K8s.io/x", "kubernetes.io./x"])
def test_reserved_domains_are_recognized_in_any_spelling(requester: str) -> None:
    found = create_problems(REQUESTS, altered(REQUEST, {"spec.requester": requester}), FEATURES)
    assert f'spec.requester: Invalid value: "{requester}": {RESERVED}' in found


def test_only_the_intent_of_a_request_changes() -> None:
    assert update_problems(REQUESTS, REQUEST, altered(REQUEST, {"spec.intent": "Withdrawn"}), "", FEATURES) == []
    changed = altered(REQUEST, {"spec.target.pod.name": "other", "spec.requester": "other.example.com/node"})
    assert update_problems(REQUESTS, REQUEST, changed, "", FEATURES) == [
        "spec.requester: Invalid value: null: field is immutable",
        "spec.target: Invalid value: null: field is immutable",
    ]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (None, 0, "Invalid value: 0: must be greater than or equal to 1"),
        (2, None, "Invalid value: null: field cannot be cleared once set"),
        (2, 1, "Invalid value: 1: may not be decreased from 2"),
        (2, 3, ""),
    ],
)
def test_the_observed_generation_only_grows(old: int | None, new: int | None, problem: str) -> None:
    before, after = (altered(REQUEST, {"status": {"observedGeneration": one}}) for one in (old, new))
    expected = [f"status.observedGeneration: {problem}"] if problem else []
    assert update_problems(REQUESTS, before, after, "status", FEATURES) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (EVICTION, status("Active", startTime=moment(0))),
        (status("Active", startTime=moment(-1)), status("Active", startTime=moment(-1), heartbeatTime=moment(0))),
        (
            status("Active", startTime=moment(-1)),
            status("Active", startTime=moment(-1), expectedCompletionTime=moment(60), message="saving"),
        ),
        (status("Active", startTime=moment(-30)), status("Interrupted", "Active", startTime=moment(-30))),
        (
            status("Active", startTime=moment(-1), completionTime=moment(0)),
            status("Completed", "Active", startTime=moment(-1), completionTime=moment(0)),
        ),
        (
            status("Active", startTime=moment(-1)),
            status("Canceled", startTime=moment(-1), conditions=[condition("Failed")]),
        ),
    ],
)
def test_responders_proceed_one_after_the_other(old: Manifest, new: Manifest) -> None:
    assert status_problems(old, new) == []


ACTIVE = status("Active", startTime=moment(-1))
STATE = "status.targetResponders[0].state"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            EVICTION,
            status("Inactive"),
            f'{STATE}: Invalid value: "Inactive": must be one of: Active, because this responder is next in line',
        ),
        (
            EVICTION,
            status("Active"),
            "status.responders[0].startTime: Required value: is required for an active responder",
        ),
        (
            ACTIVE,
            status("Inactive", startTime=moment(-1)),
            f'{STATE}: Invalid value: "Inactive": must be one of: Canceled, Completed, Interrupted, '
            "because this responder must reach a final state",
        ),
        (
            ACTIVE,
            status("Interrupted", "Active", startTime=moment(-1)),
            f"{STATE}: Forbidden: must stay Active because the responder is in progress and it should report "
            "status.responders.heartbeatTime or status.responders.completionTime",
        ),
        (
            status("Active", startTime=moment(-30)),
            status("Completed", "Active", startTime=moment(-30)),
            f'{STATE}: Invalid value: "Completed": cannot become Completed because the responder didn\'t report '
            "status.responders.completionTime",
        ),
        (
            ACTIVE,
            status("Active", startTime=moment(-1), conditions=[condition("TargetEvicted")]),
            f'{STATE}: Invalid value: "Active": must be one of: Canceled, Completed, Interrupted, '
            "because the eviction request has finished processing",
        ),
        (
            ACTIVE,
            status("Active", startTime=moment(0)),
            "status.responders[0].startTime: Invalid value: null: field cannot be modified once set",
        ),
        (
            ACTIVE,
            status("Active", startTime=moment(-1), heartbeatTime=moment(-0.75)),
            f'status.responders[0].heartbeatTime: Invalid value: "{moment(-0.75)}": must be set to the present time',
        ),
        (
            ACTIVE,
            status("Active", startTime=moment(-1), expectedCompletionTime=moment(-0.75)),
            f'status.responders[0].expectedCompletionTime: Invalid value: "{moment(-0.75)}": '
            "cannot be set to the past time",
        ),
        (
            ACTIVE,
            status("Active", startTime=moment(-1), completionTime=moment(-2)),
            f'status.responders[0].completionTime: Invalid value: "{moment(-2)}": '
            "must occur after status.responders[0].startTime",
        ),
        (
            ACTIVE,
            altered(ACTIVE, {"status.responders": [{"name": FIRST, "startTime": moment(-1)}]}),
            'status.targetResponders[1]: Invalid value: {"Name":"imperative-eviction.k8s.io/evictor","Priority":100,'
            '"State":"Inactive"}: "imperative-eviction.k8s.io/evictor" has to be tracked in status.responders first',
        ),
        (
            EVICTION,
            altered(status("Active", startTime=moment(0)), {"status.targetResponders.0.priority": 999}),
            "status.targetResponders[0].priority: Invalid value: 999: "
            "priorities 0-999 are reserved for responders with *.k8s.io suffix",
        ),
        (
            EVICTION,
            altered(status("Active", startTime=moment(0)), {"status.targetResponders.1.priority": 101}),
            "status.targetResponders[1].priority: Invalid value: 101: "
            "core k8s responder is expected to have priority: 100",
        ),
    ],
)
def test_a_status_that_no_controller_would_write(old: Manifest, new: Manifest, problem: str) -> None:
    assert problem in status_problems(old, new)


def test_only_the_active_responder_changes_its_report() -> None:
    (problem,) = status_problems(ACTIVE, altered(ACTIVE, {"status.responders.1.message": "hello"}))
    assert problem.startswith("status.responders[1]: Invalid value: {")
    assert problem.endswith('"Message":"hello"}: field is immutable')


def test_an_eviction_that_has_ended_cannot_go_on() -> None:
    failed = status("Canceled", startTime=moment(-1), conditions=[condition("Failed")])
    revived = status("Canceled", startTime=moment(-1), conditions=[condition("Failed", "False")])
    (problem,) = status_problems(failed, revived)
    assert problem.endswith("Failed condition status cannot be reverted")
    assert status_problems(failed, failed) == []


@pytest.mark.parametrize(
    ("responder", "problem"),
    [
        ({"name": FIRST, "priority": 5000}, ""),
        ({"name": FIRST}, "priority: Required value"),
        ({"name": SECOND, "priority": 5000}, f'name: Invalid value: "{SECOND}": {RESERVED}'),
        (
            {"name": FIRST, "priority": 999},
            "priority: Invalid value: 999: priorities 0-999 are reserved for responders with *.k8s.io suffix",
        ),
        ({"name": FIRST, "priority": -1}, "priority: Invalid value: -1: must be greater than or equal to 0"),
    ],
)
def test_the_responders_of_a_pod(responder: Any, problem: str) -> None:
    pod: Any = {"spec": {"containers": [{"name": "c", "image": "i"}], "evictionResponders": [responder]}}
    expected = [f"spec.evictionResponders[0].{problem}"] if problem else []
    assert create_problems("pods", pod, FEATURES) == expected


def test_a_pod_of_a_group_has_no_responders() -> None:
    features = parse_feature_gates(["EvictionRequestAPI=true,GenericWorkload=true"])
    spec: Any = {
        "containers": [{"name": "c", "image": "i"}],
        "evictionResponders": [{"name": FIRST, "priority": 5000}],
        "schedulingGroup": {"podGroupName": "g"},
    }
    assert create_problems("pods", {"spec": spec}, features) == [
        "spec.schedulingGroup: Forbidden: may not be set when evictionResponders is set"
    ]
