"""Somebody leads whenever somebody can, and never two at once; histories in which it is otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubeloop.chaos.checks.circumstances import FaultTimeline, ProcessOutage, Span
from kubeloop.chaos.checks.leadership import LeadershipResult, LeaseWrite, check_leadership, written_at
from tests.unit.chaos.planes import PACE, circumstances, ill

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


def taken_over(after: float, *illnesses: ProcessOutage) -> list[str]:
    """A leader renews for the last time at 20 s, and another one leads so much later."""
    entries = [*every_half_second("one", 0, 20), *every_half_second("two", 20 + after, ENDED_AT)]
    return judged(circumstances(*illnesses), entries).problems


def test_a_leader_that_renews_leads() -> None:
    seen = judged(circumstances(), every_half_second("one", 0, ENDED_AT))
    assert seen == ([], 0, 0.5)


def test_a_standby_leads_within_its_lease_time_and_the_pause_between_two_looks() -> None:
    gone = ill("controller-manager-0", 20.2, 50)
    assert taken_over(6.0, gone) == []
    (problem,) = taken_over(6.5, gone)
    assert problem == (
        "nobody renewed the lease of controller-manager for 6.5 s until 26.5 s, though a candidate was well, and 6.1 s"
        " are enough"
    )


def test_takeovers_are_counted_but_not_what_was_given_back() -> None:
    entries = [*every_half_second("one", 0, 20), *every_half_second("two", 24.5, 40), (40.1, "")]
    entries += every_half_second("one", 40.5, ENDED_AT)
    assert judged(circumstances(), entries) == ([], 1, 4.5)


def test_a_lease_that_was_given_back_is_taken_soon() -> None:
    entries = [*every_half_second("one", 0, 20), (20.1, ""), *every_half_second("two", 27, ENDED_AT)]
    assert len(judged(circumstances(), entries).problems) == 1


def test_nobody_takes_a_lease_before_it_has_ended() -> None:
    entries = [*every_half_second("one", 0, 20), *every_half_second("two", 23.9, ENDED_AT)]
    (problem,) = judged(circumstances(), entries).problems
    assert problem == (
        "two took the lease kube-controller-manager 3.90 s after one had renewed it, though it lasts for 4 s"
    )


def test_when_all_candidates_are_gone_nobody_can_lead_until_one_has_been_back_for_a_lease() -> None:
    away = [ill("controller-manager-0", 20.2, 40), ill("controller-manager-1", 21, 30)]
    assert taken_over(16.0, *away) == []
    assert len(taken_over(16.2, *away)) == 1


def test_a_standby_that_dies_in_time_is_not_waited_for() -> None:
    assert taken_over(12, ill("controller-manager-0", 20.2, 50), ill("controller-manager-1", 23, 27)) == []


@pytest.mark.parametrize("server", ["etcd", "apiserver"])
def test_without_those_whom_it_asks_nobody_can_lead_until_they_are_back(server: str) -> None:
    gone = [ill(f"{server}-{number}", 20.1, 30) for number in range(3)]
    assert taken_over(10.1 + 7 + 5.9, *gone) == []
    assert len(taken_over(10.1 + 7 + 6.2, *gone)) == 1


@pytest.mark.parametrize(
    ("illness", "more"),
    [
        (ill("apiserver-0", 21, 22), 1.1),
        (ill("apiserver-0", 21, 25, "silent"), 1.1 + 3.0 + 1.5),
        (ill("etcd-0", 21, 22), 1.1 + 2.0),
        (ill("etcd-0", 21, 25, "silent"), 1.1 + 5.0),
        (ill("scheduler-0", 21, 25, "silent"), 0.0),
    ],
    ids=lambda value: f"{value.kind} {value.process}" if isinstance(value, ProcessOutage) else "",
)
def test_a_standby_needs_longer_by_what_it_takes_to_notice_who_is_gone(illness: ProcessOutage, more: float) -> None:
    gone = ill("controller-manager-0", 20.2, 50)
    assert taken_over(6.0 + more, gone, illness) == []
    assert len(taken_over(6.2 + more, gone, illness)) == 1


def test_a_lease_that_nobody_ever_takes_is_a_broken_promise() -> None:
    assert len(judged(circumstances(), []).problems) == 1
    starting = [ill(f"controller-manager-{number}", 0, 56, by_itself=True) for number in range(2)]
    assert judged(circumstances(*starting), []).problems == []


def test_a_lease_that_is_not_renewed_in_the_end_is_a_broken_promise() -> None:
    assert judged(circumstances(), every_half_second("one", 0, 54)).problems == []
    assert len(judged(circumstances(), every_half_second("one", 0, 53)).problems) == 1


def test_what_was_not_seen_is_not_judged() -> None:
    before, after = renewed(*every_half_second("one", 0, 20)), renewed(*every_half_second("one", 40, ENDED_AT))
    unseen = [LeaseWrite(lease="x", holder="one", written=39.5, length=4.0, revision=99, is_next=False)]
    seen = check_leadership([*before, *unseen, *after], KIND, circumstances(), Span(0.0, ENDED_AT))
    assert seen.problems == []


def test_tries_that_fail_on_purpose_cost_a_pause_each() -> None:
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
        (97.0, 97.0),  # told late
        (697.0, 97.0),
        (5000.0, 100.0),  # no clock that we know of
    ],
)
def test_a_wrong_clock_is_seen_through(said: float, written: float) -> None:
    assert written_at(said, 100.0, [600.0, -600.0]) == pytest.approx(written)
