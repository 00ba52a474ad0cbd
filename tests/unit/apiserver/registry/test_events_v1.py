# SPDX-License-Identifier: Apache-2.0
"""Tests of events in `events.k8s.io`: stricter rules, with messages of the stored kind."""

from __future__ import annotations

import pytest

EVENTS = "/apis/events.k8s.io/v1/namespaces/shop/events"
GOOD = {
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "example.com/c",
    "reportingInstance": "i",
    "action": "Act",
    "reason": "R",
    "type": "Normal",
    "regarding": {"kind": "Pod", "namespace": "shop", "name": "p"},
}


def _event(name="e", **changes):
    return {"metadata": {"name": name}, **GOOD, **changes}


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"eventTime": None, "type": ""}, ["eventTime", "type"]),
        ({"reportingController": "a b"}, ["reportingController"]),
        ({"type": "Odd"}, ["type"]),
        ({"deprecatedCount": 1, "deprecatedSource": {"component": "x"}}, ["count", "source"]),
        ({"series": {"count": 1}}, ["series.count", "series.lastObservedTime"]),
    ],
)
def test_invalid_event_is_rejected(api, changes, fields):
    answer = api.post(EVENTS, _event(**changes))
    assert answer.status == 422
    assert answer.body["message"].startswith('Event "e" is invalid: ')
    assert "group" not in answer.body["details"]
    assert sorted(cause["field"] for cause in answer.body["details"]["causes"]) == fields


def test_events_v1_is_immutable_except_its_series(api):
    api.made(EVENTS, _event())
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}
    assert api.patch("merge", f"{EVENTS}/e", {"series": series}).status == 200
    refused = api.patch("merge", f"{EVENTS}/e", {"note": "other"})
    assert refused.body["message"] == 'Event "e" is invalid: message: Invalid value: "other": field is immutable'


def test_core_events_are_lenient(api):
    core = "/api/v1/namespaces/shop/events"
    api.made(core, {"metadata": {"name": "e"}, "involvedObject": {"namespace": "shop"}, "type": "Odd"})
    assert api.patch("merge", f"{core}/e", {"message": "other"}).status == 200
