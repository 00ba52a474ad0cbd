# SPDX-License-Identifier: Apache-2.0
"""Clients are answered whenever a majority of etcd and an API server are there; histories in which they are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubeloop.chaos.checks.availability import (
    ClientAttempt,
    Failure,
    check_availability,
    check_exits,
    check_recoveries,
)
from kubeloop.chaos.checks.fault_timeline import FaultTimeline, ProcessOutage
from kubeloop.chaos.checks.history import Action
from kubeloop.chaos.checks.time_constants import TimeConstants
from tests.unit.chaos.histories import PACE, circumstances, outage_of

WELL = circumstances()


def call(
    called: float, returned: float, failure: Failure = "", action: Action = "get", *, client: str = "c0"
) -> ClientAttempt:
    return ClientAttempt(
        client=client, action=action, called=called, returned=returned, failure=failure, message="so it was"
    )


def problems(around: FaultTimeline, *attempts: ClientAttempt) -> list[str]:
    return check_availability(attempts, around).problems


def test_fast_calls_are_no_problem() -> None:
    seen = check_availability([call(0, 0.1), call(1, 1.9), call(1, 1.2, client="c1")], WELL)
    assert (seen.problems, seen.promised, seen.broken, round(seen.longest, 2)) == ([], 3, 0, 0.9)


@pytest.mark.parametrize("failure", ["broken", "late", "refused"])
def test_failure_while_healthy_is_a_violation(failure: Failure) -> None:
    (problem,) = problems(WELL, call(1, 1.5, failure))
    assert problem == (
        f"a get of c0 failed at 1.5 s, although etcd had a quorum and an API server was running: {failure}, so it was"
    )  # fmt: skip


@pytest.mark.parametrize("failure", ["broken", "late", "refused"])
def test_failures_without_quorum_are_no_violation(failure: Failure) -> None:
    gone = circumstances(outage_of("etcd-0", 10, 20), outage_of("etcd-1", 10, 20))
    assert problems(gone, call(9.5, 12, failure), call(15, 15.1, failure), call(19, 26.9, failure)) == []
    assert len(problems(gone, call(8, 9.9, failure))) == 1, "it was there still"
    assert len(problems(gone, call(27.1, 27.2, failure))) == 1, "it was there again"


def test_call_that_outlasts_the_recovery_is_a_violation() -> None:
    gone = circumstances(outage_of("etcd-0", 10, 20), outage_of("etcd-1", 10, 20))
    assert problems(gone, call(11, 27.9)) == []
    (problem,) = problems(gone, call(11, 28.2))
    assert problem == "a get of c0 took 1.2 s until 28.2 s, where 1.0 s are enough"


def test_killed_server_breaks_one_connection_per_client() -> None:
    died = circumstances(outage_of("apiserver-1", 10, 14))
    once = [call(10, 10.1, "broken", client=client) for client in ("c0", "c1")]
    assert problems(died, *once, call(10.2, 10.3)) == []
    (problem,) = problems(died, *once, call(10.2, 10.3, "broken"))
    assert "broken" in problem


def test_second_killed_server_may_break_a_second_connection() -> None:
    both = circumstances(outage_of("apiserver-1", 10, 14), outage_of("apiserver-2", 11, 14, "silent"))
    attempts = [call(10, 10.1, "broken"), call(11, 17, "broken")]
    assert problems(both, *attempts) == []
    assert len(problems(both, *attempts, call(17.1, 17.2, "broken"))) == 1


@pytest.mark.parametrize("failure", ["late", "refused"])
@pytest.mark.parametrize("process", ["apiserver-0", "etcd-0"])
def test_killed_server_does_not_excuse_rejections_or_timeouts(failure: Failure, process: str) -> None:
    assert len(problems(circumstances(outage_of(process, 10, 14)), call(10, 11, failure))) == 1


def test_killed_etcd_member_breaks_no_client_connection() -> None:
    assert len(problems(circumstances(outage_of("etcd-0", 10, 14)), call(10, 11, "broken"))) == 1


@pytest.mark.parametrize(
    ("outage", "enough"),
    [
        (outage_of("apiserver-0", 10, 14), 1.0),
        (outage_of("apiserver-0", 10, 14, "silent"), 7.0),
        (outage_of("etcd-0", 10, 14), 3.0),
        (outage_of("etcd-0", 10, 14, "silent"), 6.0),
        (outage_of("scheduler-0", 10, 14, "silent"), 1.0),
    ],
    ids=lambda value: f"{value.kind} {value.process}" if isinstance(value, ProcessOutage) else "",
)
def test_call_may_take_longer_by_the_detection_time(outage: ProcessOutage, enough: float) -> None:
    around = circumstances(outage)
    assert problems(around, call(11, 11 + enough - 0.1)) == []
    assert len(problems(around, call(11, 11 + enough + 0.1))) == 1


def test_partitioned_process_may_be_slow_for_a_while_after_healing() -> None:
    back = circumstances(outage_of("apiserver-0", 10, 14, "silent"))
    assert problems(back, call(18, 21)) == []
    assert len(problems(back, call(20, 23))) == 1


def test_loaded_machine_extends_all_limits() -> None:
    assert problems(circumstances(pace=PACE.with_cpu_wait(0.5)), call(0, 2.9)) == []
    assert len(problems(circumstances(pace=PACE.with_cpu_wait(0.4)), call(0, 2.9))) == 1


def test_injected_call_faults_are_no_violation() -> None:
    lost = ClientAttempt(client="c0", action="get", called=1, returned=1.1, failure="broken", on_purpose=True)
    assert problems(WELL, lost) == []
    assert problems(circumstances(pace=replace(PACE, slowed_by=0.5)), call(1, 2.4)) == []


def test_full_disk_excuses_writes_but_not_reads() -> None:
    full = circumstances(outage_of("apiserver-0", 10, 14, "full"), etcd=0, api_servers=1)
    assert problems(full, call(11, 11.1, "refused", "create"), call(12, 12.1, "refused", "delete")) == []
    assert len(problems(full, call(11, 11.1, "refused", "get"))) == 1
    assert len(problems(full, call(11, 11.1, "broken", "create"))) == 1
    assert len(problems(full, call(22, 22.1, "refused", "create"))) == 1, "there was room again"


def test_longest_outage_is_from_first_failure_to_next_success() -> None:
    died = circumstances(outage_of("apiserver-1", 10, 14), outage_of("apiserver-2", 10, 14))
    seen = check_availability([call(10, 10.1, "broken"), call(10.2, 10.3, "broken"), call(10.4, 10.5)], died)
    assert (seen.problems, seen.promised, seen.broken, round(seen.longest, 2)) == ([], 3, 2, 0.5)


def test_recovery_time_is_limited() -> None:
    def took(seconds: float) -> list[str]:
        one = ProcessOutage(process="apiserver-1", kind="dead", began=0, put_right=1, ended=1 + seconds)
        return check_recoveries(circumstances(one))

    assert took(30.9) == []
    assert took(31.1) == ["apiserver-1 took 31.1 s to become ready again"]


def test_unexpected_exit_is_a_violation() -> None:
    def end(process: str, *outages: ProcessOutage, pace: TimeConstants = PACE) -> list[str]:
        return check_exits([(process, 20.0)], circumstances(*outages, pace=pace))

    told = "exited at 20.0 s, although all its dependencies were available"
    assert end("scheduler-0") == [f"scheduler-0 {told}"]
    assert end("scheduler-0", outage_of("scheduler-0", 15, 19, "silent")) == [], "it has lost its lease"
    assert end("scheduler-0", outage_of("etcd-0", 15, 19)) == [], "it could not renew its lease"
    assert end("scheduler-0", outage_of("scheduler-0", 10, 19, by_itself=True)) == [f"scheduler-0 {told}"]
    assert end("scheduler-0", outage_of("scheduler-0", 1, 2)) == [f"scheduler-0 {told}"], "that was long ago"
    assert end("scheduler-0", pace=replace(PACE, lost_tries=3)) == [], "by chance, no try came through"
    assert end("scheduler-0", pace=PACE.with_cpu_wait(0.2)) == [], "every try may have come too late"
    assert end("apiserver-0", pace=PACE.with_cpu_wait(0.2)) == [f"apiserver-0 {told}"]
    assert end("apiserver-0", outage_of("etcd-0", 15, 19)) == [f"apiserver-0 {told}"]
    assert end("apiserver-0", outage_of("etcd-0", 15, 19), outage_of("etcd-1", 15, 19)) == [], "it had no etcd"
