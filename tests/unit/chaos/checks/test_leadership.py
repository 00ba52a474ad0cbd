# SPDX-License-Identifier: Apache-2.0
"""Tests of leadership checks: histories without a leader, or with two."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubeloop.chaos.checks.fault_timeline import FaultTimeline, ProcessOutage, Span
from kubeloop.chaos.checks.leadership import LeadershipResult, LeaseWrite, check_leadership, written_at
from tests.unit.chaos.histories import PACE, circumstances, outage_of

KIND = "controller-manager"
ENDED_AT = 60.0


def renewed(*entries: tuple[float, str]) -> list[LeaseWrite]:
    return [
        LeaseWrite(lease="kube-controller-manager", holder=holder, written=at, length=4.0, revision=number)
        for number, (at, holder) in enumerate(entries, 1)
    ]


def every_half_second(holder: str, since: float, until: float) -> list[tuple[float, str]]:
    return [(since + step / 2, holder) for step in range(int((until - since) * 2) + 1)]


def judged(around: FaultTimeline, entries: list[tuple[float, str]]) -> LeadershipResult:
    return check_leadership(renewed(*entries), KIND, around, Span(0.0, ENDED_AT))


def taken_over(after: float, *outages: ProcessOutage) -> list[str]:
    """A leader renews for the last time at 20 s, and another one leads so much later."""
    entries = [*every_half_second("one", 0, 20), *every_half_second("two", 20 + after, ENDED_AT)]
    return judged(circumstances(*outages), entries).problems


def test_renewing_leader_is_no_problem() -> None:
    seen = judged(circumstances(), every_half_second("one", 0, ENDED_AT))
    assert seen == ([], 0, 0.5)


def test_standby_takes_over_within_lease_duration_and_retry_period() -> None:
    gone = outage_of("controller-manager-0", 20.2, 50)
    assert taken_over(6.0, gone) == []
    (problem,) = taken_over(6.5, gone)
    assert problem == (
        "no candidate renewed the lease of controller-manager for 6.5 s until 26.5 s, although a candidate was "
        "healthy; allowed are 6.1 s"
    )


def test_takeovers_exclude_released_leases() -> None:
    entries = [*every_half_second("one", 0, 20), *every_half_second("two", 24.5, 40), (40.1, "")]
    entries += every_half_second("one", 40.5, ENDED_AT)
    assert judged(circumstances(), entries) == ([], 1, 4.5)


def test_released_lease_is_taken_soon() -> None:
    entries = [*every_half_second("one", 0, 20), (20.1, ""), *every_half_second("two", 27, ENDED_AT)]
    assert len(judged(circumstances(), entries).problems) == 1


def test_taking_an_unexpired_lease_is_a_violation() -> None:
    entries = [*every_half_second("one", 0, 20), *every_half_second("two", 23.9, ENDED_AT)]
    (problem,) = judged(circumstances(), entries).problems
    assert problem == (
        "two took the lease kube-controller-manager 3.90 s after one had renewed it, although its duration is 4 s"
    )


def test_nothing_is_expected_without_candidates() -> None:
    away = [outage_of("controller-manager-0", 20.2, 40), outage_of("controller-manager-1", 21, 30)]
    assert taken_over(16.0, *away) == []
    assert len(taken_over(16.2, *away)) == 1


def test_killed_standby_is_not_expected_to_lead() -> None:
    assert taken_over(12, outage_of("controller-manager-0", 20.2, 50), outage_of("controller-manager-1", 23, 27)) == []


@pytest.mark.parametrize("server", ["etcd", "apiserver"])
def test_nothing_is_expected_without_dependencies(server: str) -> None:
    gone = [outage_of(f"{server}-{number}", 20.1, 30) for number in range(3)]
    assert taken_over(10.1 + 7 + 5.9, *gone) == []
    assert len(taken_over(10.1 + 7 + 6.2, *gone)) == 1


@pytest.mark.parametrize(
    ("outage", "more"),
    [
        (outage_of("apiserver-0", 21, 22), 1.1),
        (outage_of("apiserver-0", 21, 25, "silent"), 1.1 + 3.0 + 1.5),
        (outage_of("etcd-0", 21, 22), 1.1 + 2.0),
        (outage_of("etcd-0", 21, 25, "silent"), 1.1 + 5.0),
        (outage_of("scheduler-0", 21, 25, "silent"), 0.0),
    ],
    ids=lambda value: f"{value.kind} {value.process}" if isinstance(value, ProcessOutage) else "",
)
def test_takeover_may_take_longer_by_the_detection_time(outage: ProcessOutage, more: float) -> None:
    gone = outage_of("controller-manager-0", 20.2, 50)
    assert taken_over(6.0 + more, gone, outage) == []
    assert len(taken_over(6.2 + more, gone, outage)) == 1


def test_lease_that_is_never_taken_is_a_violation() -> None:
    assert len(judged(circumstances(), []).problems) == 1
    starting = [outage_of(f"controller-manager-{number}", 0, 56, by_itself=True) for number in range(2)]
    assert judged(circumstances(*starting), []).problems == []


def test_lease_not_renewed_at_the_end_is_a_violation() -> None:
    assert judged(circumstances(), every_half_second("one", 0, 54)).problems == []
    assert len(judged(circumstances(), every_half_second("one", 0, 53)).problems) == 1


def test_unobserved_time_is_not_judged() -> None:
    before, after = renewed(*every_half_second("one", 0, 20)), renewed(*every_half_second("one", 40, ENDED_AT))
    unseen = [LeaseWrite(lease="x", holder="one", written=39.5, length=4.0, revision=99, is_next=False)]
    seen = check_leadership([*before, *unseen, *after], KIND, circumstances(), Span(0.0, ENDED_AT))
    assert seen.problems == []


def test_injected_failures_cost_a_retry_period_each() -> None:
    around = circumstances(pace=replace(PACE, lost_tries=2))
    entries = [*every_half_second("one", 0, 20), *every_half_second("two", 28.2, ENDED_AT)]
    assert judged(around, entries).problems == []


@pytest.mark.parametrize(
    ("said", "written"),
    [
        (99.9, 99.9),
        (100.01, 100.0),  # clocks are read one after the other
        (699.9, 99.9),
        (-500.1, 99.9),
        (97.0, 97.0),  # observed late
        (697.0, 97.0),
        (5000.0, 100.0),  # no known clock
    ],
)
def test_clock_skew_is_corrected(said: float, written: float) -> None:
    assert written_at(said, 100.0, [600.0, -600.0]) == pytest.approx(written)
