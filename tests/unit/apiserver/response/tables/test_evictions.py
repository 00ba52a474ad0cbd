# SPDX-License-Identifier: Apache-2.0
"""Rows of eviction requests and evictions."""

from __future__ import annotations

from typing import Any

import pytest

TARGET = {"target": {"pod": {"name": "web", "uid": "u"}}}


def condition(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-05-10T11:59:00Z"}


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, "Pending"),
        ({"observedGeneration": 1}, "Progressing"),
        ({"conditions": [condition("Failed")]}, "Failed (R)"),
        ({"conditions": [condition("Failed"), condition("TargetEvicted")]}, "TargetEvicted (R)"),
    ],
)
def test_an_eviction_request_shows_its_target_and_state(show: Any, status: Any, state: str) -> None:
    spec = {**TARGET, "requester": "a.example.com/b", "intent": "Eviction"}
    row = show("evictionrequests.lifecycle.k8s.io/v1alpha1", spec=spec, status=status)
    assert list(row.values()) == ["x", "web", "Pod", state, "a.example.com/b", "Eviction", "5m"]


REPORT = {"name": "a.example.com/b", "startTime": "2026-05-10T11:58:00Z", "message": " saving "}


@pytest.mark.parametrize(
    ("state", "report", "cells"),
    [
        ("Active", {}, ["a.example.com/b (1/2)", "Started (2m ago)", "<unknown>"]),
        (
            "Active",
            {"expectedCompletionTime": "2026-05-10T12:03:00Z"},
            ["a.example.com/b (1/2)", "Started (2m ago)", "in 3m"],
        ),
        (
            "Active",
            {"expectedCompletionTime": "2026-05-10T11:59:00Z"},
            ["a.example.com/b (1/2)", "Started (2m ago)", "60s ago"],
        ),
        (
            "Completed",
            {"completionTime": "2026-05-10T11:59:00Z"},
            ["a.example.com/b (1/2)", "Completed (60s ago)", "-"],
        ),
        ("Canceled", {}, ["a.example.com/b (1/2)", "Canceled", "-"]),
        ("Inactive", {}, ["<unset> (0/2)", "<unset>", "<unknown>"]),
    ],
)
def test_an_eviction_shows_its_active_responder(show: Any, state: str, report: Any, cells: list[str]) -> None:
    targets = [
        {"name": "a.example.com/b", "priority": 2000, "state": state},
        {"name": "imperative-eviction.k8s.io/evictor", "priority": 100, "state": "Inactive"},
    ]
    requesters = [
        {"name": "c.example.com/d", "intent": "Eviction"},
        {"name": "b.example.com/d", "intent": "Eviction"},
        {"name": "a.example.com/d", "intent": "Withdrawn"},
    ]
    reports = [{**REPORT, **report}, {"name": "imperative-eviction.k8s.io/evictor"}]
    status = {"targetResponders": targets, "responders": reports, "requesters": requesters}
    row = list(show("evictions.lifecycle.k8s.io/v1alpha1", spec=TARGET, status=status).values())
    assert row[4:7] == cells
    assert row[7:9] == ["b.example.com/d + 1 more...", "5m"]
    assert row[9:] == ["<unset>", "<unset>" if state == "Inactive" else "saving"]


@pytest.mark.parametrize(
    ("requesters", "shown"), [([], "<none>"), ([{"name": "a/b", "intent": "Withdrawn"}], "<withdrawn>")]
)
def test_an_eviction_without_requesters(show: Any, requesters: Any, shown: str) -> None:
    row = show("evictions.lifecycle.k8s.io/v1alpha1", spec={"target": {}}, status={"requesters": requesters})
    assert list(row.values())[1:3] == ["<unset>", "<unset>"]
    assert list(row.values())[7] == shown
