# SPDX-License-Identifier: Apache-2.0
"""Tests of guaranteed times of a plane, derived from outages."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.chaos.checks.fault_timeline import (
    ProcessOutage,
    Span,
    merge_spans,
    subtract_spans,
    total_seconds,
)
from kubeloop.chaos.faults.process_faults import kind_of
from kubeloop.chaos.plan import FaultOccurrence, plan_of
from tests.unit.chaos.histories import PACE, circumstances, outage_of

BACK = PACE.recovery + PACE.slack


def test_one_of_three_members_is_no_majority_loss() -> None:
    seen = circumstances(
        outage_of("etcd-0", 0, 9), outage_of("apiserver-0", 1, 9, "silent"), outage_of("apiserver-2", 2, 9)
    )
    assert seen.unguaranteed == ()


def test_two_of_three_members_lose_the_majority_until_recovery() -> None:
    seen = circumstances(outage_of("etcd-0", 0, 10), outage_of("etcd-2", 4, 6, "silent"))
    assert seen.unguaranteed == (Span(4, 6 + BACK),)
    assert seen.guaranteed_seconds(Span(0, 20)) == 20 - 2 - BACK


def test_one_member_with_two_outages_counts_once() -> None:
    assert circumstances(outage_of("etcd-0", 0, 10), outage_of("etcd-0", 4, 6)).unguaranteed == ()


def test_nothing_is_expected_without_an_api_server() -> None:
    servers = [outage_of(f"apiserver-{number}", number, 8) for number in range(3)]
    assert circumstances(*servers).unguaranteed == (Span(2, 8 + BACK),)


def test_single_sqlite_server_is_a_dependency_except_for_a_full_disk() -> None:
    seen = circumstances(
        outage_of("apiserver-0", 1, 2), outage_of("apiserver-0", 20, 30, "full"), etcd=0, api_servers=1
    )
    assert seen.unguaranteed == (Span(1, 2 + BACK),)


def test_losses_in_quick_succession_are_merged() -> None:
    pairs = [outage_of(name, at, at + 1) for at in (0, 5) for name in ("etcd-0", "etcd-1")]
    assert circumstances(*pairs).unguaranteed == (Span(0, 6 + BACK),)


def test_recovery_time_excludes_missing_dependencies() -> None:
    late = ProcessOutage(process="apiserver-1", kind="dead", began=0, put_right=1, ended=31)
    assert [taken for _, taken in circumstances(late).recoveries()] == [30]
    members = [outage_of(name, 2, 8) for name in ("etcd-0", "etcd-1")]
    assert [taken for _, taken in circumstances(late, *members).recoveries()] == [30 - 6 - BACK]


spans = st.builds(lambda at, by: Span(at, at + by), st.integers(0, 30), st.integers(1, 10))


@settings(max_examples=100)
@given(spans, st.lists(spans, max_size=6))
def test_remaining_time_excludes_holes(span: Span, holes: list[Span]) -> None:
    left = {second for part in subtract_spans(span, holes) for second in range(int(part.began), int(part.ended))}
    covered = {second for hole in holes for second in range(int(hole.began), int(hole.ended))}
    assert left == set(range(int(span.began), int(span.ended))) - covered
    assert total_seconds(merge_spans(holes)) == len(covered)


@pytest.mark.parametrize(
    ("fault", "target", "kind"),
    [
        ({"fault": "kill"}, "etcd-0", "dead"),
        ({"fault": "pause"}, "scheduler-0", "silent"),
        ({"fault": "partition"}, "apiserver-1", "silent"),
        ({"fault": "lose-data"}, "etcd-1", "dead"),
        ({"fault": "disk-full", "targets": ["etcd", "apiserver"]}, "etcd-0", "dead"),
        ({"fault": "disk-full", "targets": ["etcd", "apiserver"]}, "apiserver-0", None),
        ({"fault": "clock-jump", "by": "10m"}, "apiserver-0", None),
    ],
)
def test_faults_have_an_outage_kind(fault: dict[str, object], target: str, kind: str | None) -> None:
    head = {"apiVersion": "kubeloop.dev/v1alpha1", "kind": "ChaosPlan"}
    (made,) = plan_of({**head, "faults": [{**fault, "every": "1s"}]}).faults
    assert kind_of(FaultOccurrence(1, 2, made, target), with_etcd=True) == kind  # type: ignore[arg-type]
