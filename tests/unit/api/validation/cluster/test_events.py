# SPDX-License-Identifier: Apache-2.0
"""Rules of Events of both groups."""

from __future__ import annotations

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import QUALIFIED_NAME

EVENT = {"involvedObject": {"namespace": "default"}}
TIMED = {
    "involvedObject": {"namespace": "default"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingComponent": "c",
    "reportingInstance": "i",
    "action": "a",
    "reason": "r",
}
STRICT = {
    "regarding": {"namespace": "default"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "c",
    "reportingInstance": "i",
    "action": "a",
    "reason": "r",
    "type": "Normal",
}
NOW = "2026-01-01T00:00:00Z"
SERIES = {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}

CASES = [
    *creates("events", EVENT, [
        ({"involvedObject": {"namespace": "other"}},
            ['involvedObject.namespace: Invalid value: "other": does not match event.namespace']),
    ]),
    *updates("events", EVENT, [
        ({}, {"involvedObject": {"namespace": "other"}},
            ['involvedObject.namespace: Invalid value: "other": does not match event.namespace']),
    ]),
    *creates("events", TIMED, [
        ({"reportingComponent": ""},
            ["reportingComponent: Required value",
             'reportingComponent: Invalid value: "": name part must be non-empty',
             'reportingComponent: Invalid value: "": ' + QUALIFIED_NAME]),
        ({"reportingComponent": "a b"}, ['reportingComponent: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"reportingInstance": ""}, ["reportingInstance: Required value"]),
        ({"action": ""}, ["action: Required value"]),
        ({"reason": "r" * 129}, ['reason: Invalid value: "": can have at most 128 characters']),
        ({"message": "m" * 1025}, ['message: Invalid value: "": can have at most 1024 characters']),
    ]),
    *creates("events.events.k8s.io", STRICT, [
        ({"eventTime": None}, ["eventTime: Required value"]),
        ({"reportingController": "a b"}, ['reportingController: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"type": "T"}, ['type: Invalid value: "": has invalid value: T']),
        ({"deprecatedFirstTimestamp": NOW}, ['firstTimestamp: Invalid value: "": needs to be unset']),
        ({"deprecatedLastTimestamp": NOW}, ['lastTimestamp: Invalid value: "": needs to be unset']),
        ({"deprecatedCount": 1}, ['count: Invalid value: "": needs to be unset']),
        ({"deprecatedSource": {"component": "c"}}, ['source: Invalid value: "": needs to be unset']),
        ({"series": {**SERIES, "count": 1}}, ['series.count: Invalid value: "": should be at least 2']),
        ({"series": {**SERIES, "lastObservedTime": None}}, ["series.lastObservedTime: Required value"]),
    ]),
    *updates("events.events.k8s.io", STRICT, [
        ({}, {"series": {**SERIES, "count": 1}}, ['series.count: Invalid value: "": should be at least 2']),
        ({}, {"regarding": {"namespace": "default", "name": "n"}},
            ["involvedObject: Invalid value: "
             '{"Kind":"","Namespace":"default","Name":"n","UID":"","APIVersion":"","ResourceVersion":"","F'
             'ieldPath":""}: field is immutable']),
        ({}, {"reason": "s"}, ['reason: Invalid value: "s": field is immutable']),
        ({}, {"note": "n"}, ['message: Invalid value: "n": field is immutable']),
        ({}, {"type": "Warning"}, ['type: Invalid value: "Warning": field is immutable']),
        ({}, {"reportingInstance": ""},
            ["reportingInstance: Required value", 'reportingInstance: Invalid value: "": field is immutable']),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_events_are_reported(case: Case) -> None:
    assert case.found() == case.errors
