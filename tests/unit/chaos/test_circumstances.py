"""When something could be expected of a plane, from who was ill when."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.chaos.checks.circumstances import ProcessOutage, Span, merge_spans, subtract_spans, total_seconds
from kubeloop.chaos.faults.disturbances import kind_of
from kubeloop.chaos.plan import FaultOccurrence, plan_of
from tests.unit.chaos.planes import PACE, circumstances, ill

BACK = PACE.recovery + PACE.breath


def test_one_of_three_is_nobody() -> None:
    seen = circumstances(ill("etcd-0", 0, 9), ill("apiserver-0", 1, 9, "silent"), ill("apiserver-2", 2, 9))
    assert seen.excused == ()


def test_two_of_three_members_are_the_majority_for_as_long_as_both_are_away_and_some_time_after() -> None:
    seen = circumstances(ill("etcd-0", 0, 10), ill("etcd-2", 4, 6, "silent"))
    assert seen.excused == (Span(4, 6 + BACK),)
    assert seen.answerable(Span(0, 20)) == 20 - 2 - BACK


def test_one_member_that_is_ill_twice_at_once_is_still_one() -> None:
    assert circumstances(ill("etcd-0", 0, 10), ill("etcd-0", 4, 6)).excused == ()


def test_without_any_api_server_nothing_can_be_expected() -> None:
    servers = [ill(f"apiserver-{number}", number, 8) for number in range(3)]
    assert circumstances(*servers).excused == (Span(2, 8 + BACK),)


def test_one_server_with_its_own_file_is_all_there_is_but_a_full_disk_leaves_it_there() -> None:
    seen = circumstances(ill("apiserver-0", 1, 2), ill("apiserver-0", 20, 30, "full"), etcd=0, api_servers=1)
    assert seen.excused == (Span(1, 2 + BACK),)


def test_losses_that_follow_each_other_soon_are_one() -> None:
    pairs = [ill(name, at, at + 1) for at in (0, 5) for name in ("etcd-0", "etcd-1")]
    assert circumstances(*pairs).excused == (Span(0, 6 + BACK),)


def test_how_long_a_process_took_to_be_ready_does_not_count_what_it_had_to_be_without() -> None:
    late = ProcessOutage(process="apiserver-1", kind="dead", began=0, put_right=1, ended=31)
    assert [taken for _, taken in circumstances(late).returns()] == [30]
    members = [ill(name, 2, 8) for name in ("etcd-0", "etcd-1")]
    assert [taken for _, taken in circumstances(late, *members).returns()] == [30 - 6 - BACK]


spans = st.builds(lambda at, by: Span(at, at + by), st.integers(0, 30), st.integers(1, 10))


@settings(max_examples=100)
@given(spans, st.lists(spans, max_size=6))
def test_what_is_left_of_a_time_is_what_no_hole_covers(span: Span, holes: list[Span]) -> None:
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
def test_how_others_see_a_process_to_which_something_is_done(
    fault: dict[str, object], target: str, kind: str | None
) -> None:
    head = {"apiVersion": "kubeloop.dev/v1alpha1", "kind": "ChaosPlan"}
    (made,) = plan_of({**head, "faults": [{**fault, "every": "1s"}]}).faults
    assert kind_of(FaultOccurrence(1, 2, made, target), with_etcd=True) == kind  # type: ignore[arg-type]
