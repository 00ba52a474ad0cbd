"""When containers are started again, and how long they wait."""

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
    FIRST_DELAY,
    LONGEST_DELAY,
    RESET_AFTER,
    BackOff,
    raised,
    restarts,
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
def test_policy_of_the_pod_decides(policy: str, code: int, again: bool) -> None:
    assert restarts(Container(name="a"), PodSpec(restart_policy=policy), code) is again


def test_policy_of_the_container_comes_before_that_of_the_pod() -> None:
    assert restarts(Container(name="a", restart_policy="Always"), PodSpec(restart_policy="Never"), 0)
    assert not restarts(Container(name="a", restart_policy="Never"), PodSpec(restart_policy="Always"), 1)


@pytest.mark.parametrize(
    ("operator", "code", "again"), [("In", 42, True), ("In", 1, False), ("NotIn", 1, True), ("NotIn", 42, False)]
)
def test_rules_come_before_the_policy(operator: str, code: int, again: bool) -> None:
    codes = ContainerRestartRuleOnExitCodes(operator=operator, values=(42,))
    rule = ContainerRestartRule(action="Restart", exit_codes=codes)
    container = Container(name="a", restart_policy="Never", restart_policy_rules=(rule,))
    assert restarts(container, PodSpec(restart_policy="Never"), code) is again


def test_delays_double_up_to_the_longest() -> None:
    delays, back_off = [], None
    for _ in range(8):
        back_off = raised(back_off, NOW, NOW)
        delays.append(back_off.delay)
    assert delays == [10, 20, 40, 80, 160, 300, 300, 300]


@given(delay=st.floats(FIRST_DELAY, LONGEST_DELAY), ran=st.floats(0, 3 * RESET_AFTER))
@settings(max_examples=50)
def test_container_that_ran_for_long_begins_anew(delay: float, ran: float) -> None:
    before = BackOff(delay, NOW)
    finished = NOW + timedelta(seconds=ran)
    after = raised(before, finished, finished)
    if ran > RESET_AFTER + 1e-3:
        assert before.ends(finished) is None
        assert after.delay == FIRST_DELAY
    elif ran < RESET_AFTER - 1e-3:
        ends = before.ends(finished)
        assert ends is not None
        assert ends > finished
        assert after.delay == min(2 * delay, LONGEST_DELAY)
