# SPDX-License-Identifier: Apache-2.0
"""Tests of the calls hit by a plan."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from kubeloop.chaos.faults.call_faults import CallFaults, InjectedFault, is_injected
from kubeloop.chaos.plan import plan_of
from kubeloop.sim.loop import VirtualLoop, run_virtual


def faults(*given: dict[str, Any], seed: int = 1) -> CallFaults:
    return CallFaults(
        plan_of({"apiVersion": "kubeloop.dev/v1alpha1", "kind": "ChaosPlan", "seed": seed, "faults": list(given)})
    )


def strike(found: CallFaults, verb: str = "update", resource: str = "pods", user: str = "me") -> InjectedFault | None:
    return found.fault_of(user, verb, resource, "web")


@pytest.mark.parametrize(("code", "reason"), [(503, "ServiceUnavailable"), (429, "TooManyRequests"), (504, "Timeout")])
def test_error_fault_is_a_kubernetes_status(code: int, reason: str) -> None:
    struck = strike(faults({"fault": "errors", "chance": 1, "code": code}))
    assert struck is not None
    assert struck.error is not None
    status = struck.error.status()
    assert (status["code"], status["reason"], status["status"]) == (code, reason, "Failure")
    assert status["details"]["causes"] == [
        {"reason": "FailedOnPurpose", "message": "faults[0] of the chaos plan"},
    ]
    assert is_injected(struck.error)


def test_conflicts_apply_to_writes_and_name_the_object() -> None:
    found = faults({"fault": "conflicts", "chance": 1})
    assert strike(found, "create") is strike(found, "get") is None
    struck = strike(found, "patch", "deployments.apps")
    assert struck is not None
    assert str(struck.error).startswith('Operation cannot be fulfilled on deployments.apps "web": the object has been')


def test_only_selected_calls_are_hit() -> None:
    found = faults(
        {
            "fault": "slow",
            "chance": 1,
            "by": "2s",
            "verbs": ["get"],
            "resources": ["pods", "leases.coordination.k8s.io"],
        },
        {"fault": "errors", "chance": 1, "users": ["system:serviceaccount:*"], "exceptUsers": ["*:default"]},
    )
    assert strike(found, "get") == strike(found, "get", "leases.coordination.k8s.io") == InjectedFault(delay=2.0)
    assert strike(found, "list") is strike(found, "get", "services") is strike(found, "get", "podss") is None
    assert strike(found, "list", user="system:serviceaccount:a:b") is not None
    assert strike(found, "list", user="system:serviceaccount:a:default") is None


def test_the_same_seed_hits_the_same_calls() -> None:
    def hits(seed: int) -> list[bool]:
        found = faults({"fault": "errors", "chance": 0.3}, seed=seed)
        return [strike(found) is not None for _ in range(1000)]

    assert hits(1) == hits(1) != hits(2)
    assert 200 < Counter(hits(1))[True] < 400


def test_watch_has_no_response_to_lose_but_its_events_are_delayed() -> None:
    found = faults({"fault": "lost-answers", "chance": 1}, {"fault": "slow", "chance": 1, "by": "3s"})
    assert strike(found, "watch") is None
    assert strike(found, "list") == InjectedFault(drops_response=True)
    assert found.event_delay("me", "pods") == 3.0


def test_watches_are_cut_repeatedly() -> None:
    found = faults({"fault": "cut-watches", "every": "10s", "resources": ["pods"]})
    cut: list[str] = []
    found.register_watch("pods", lambda: cut.append("pods"))
    found.register_watch("services", lambda: cut.append("services"))
    found.register_watch("pods", lambda: cut.append("closed"))()

    async def ten_minutes() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(600):
                await found.run()

    run_virtual(ten_minutes(), loop=VirtualLoop())
    assert set(cut) == {"pods"}
    assert 45 < len(cut) < 75
