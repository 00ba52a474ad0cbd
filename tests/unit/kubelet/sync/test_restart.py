# SPDX-License-Identifier: Apache-2.0
"""Tests of container restarts and their backoff."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.generated.core_v1 import (
    Container,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    PodSpec,
)
from kubeloop.kubelet.sync.restart import (
    BACKOFF_RESET_SECONDS,
    INITIAL_BACKOFF_SECONDS,
    MAX_BACKOFF_SECONDS,
    RestartBackOff,
    next_backoff,
    should_restart,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Never", 0, False),
        ("Never", 1, False),
        ("", 0, True),
    ],
)
def test_pod_policy_decides(policy: str, code: int, again: bool) -> None:
    assert should_restart(Container(name="a"), PodSpec(restart_policy=policy), code) is again


def test_container_policy_precedes_the_pod_policy() -> None:
    assert should_restart(Container(name="a", restart_policy="Always"), PodSpec(restart_policy="Never"), 0)
    assert not should_restart(Container(name="a", restart_policy="Never"), PodSpec(restart_policy="Always"), 1)


@pytest.mark.parametrize(
    ("operator", "code", "again"), [("In", 42, True), ("In", 1, False), ("NotIn", 1, True), ("NotIn", 42, False)]
)
def test_rules_precede_the_policy(operator: str, code: int, again: bool) -> None:
    codes = ContainerRestartRuleOnExitCodes(operator=operator, values=(42,))
    rule = ContainerRestartRule(action="Restart", exit_codes=codes)
    container = Container(name="a", restart_policy="Never", restart_policy_rules=(rule,))
    assert should_restart(container, PodSpec(restart_policy="Never"), code) is again


def test_backoff_doubles_up_to_the_maximum() -> None:
    delays, back_off = [], None
    for _ in range(8):
        back_off = next_backoff(back_off, NOW, NOW)
        delays.append(back_off.delay)
    assert delays == [10, 20, 40, 80, 160, 300, 300, 300]


def test_backoff_can_have_another_maximum() -> None:
    for longest, expected in ((25.0, [10, 20, 25, 25]), (3.0, [3, 3, 3, 3])):
        delays, back_off = [], None
        for _ in range(4):
            back_off = next_backoff(back_off, NOW, NOW, longest)
            delays.append(back_off.delay)
        assert delays == expected


@given(delay=st.floats(INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS), ran=st.floats(0, 3 * BACKOFF_RESET_SECONDS))
@settings(max_examples=50)
def test_long_running_container_resets_the_backoff(delay: float, ran: float) -> None:
    before = RestartBackOff(delay, NOW)
    finished = NOW + timedelta(seconds=ran)
    after = next_backoff(before, finished, finished)
    if ran > BACKOFF_RESET_SECONDS + 1e-3:
        assert before.expiration(finished) is None
        assert after.delay == INITIAL_BACKOFF_SECONDS
    elif ran < BACKOFF_RESET_SECONDS - 1e-3:
        ends = before.expiration(finished)
        assert ends is not None
        assert ends > finished
        assert after.delay == min(2 * delay, MAX_BACKOFF_SECONDS)
