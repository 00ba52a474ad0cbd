# SPDX-License-Identifier: Apache-2.0
"""Tests of the status line's text: what fits, its colours, and where it is shown."""

from __future__ import annotations

import io

import pytest

from kubeloop.cli.program.terminal_line import GREEN, PLAIN, RED, YELLOW, Segment, fit, is_usable
from kubeloop.cli.up.control_plane import PlaneFigures
from kubeloop.cli.up.status_line import pause_after, segments_of

FIGURES = PlaneFigures(3, 2, 1, 1, 48, 48, 0, 0, True)


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("columns", "count"), [(0, 0), (3, 0), (4, 1), (8, 1), (9, 2), (100, 2)])
def test_segments_at_the_end_are_left_out_if_they_do_not_fit(columns: int, count: int) -> None:
    assert len(fit([Segment("abc"), Segment("def")], columns)) == count


@pytest.mark.parametrize(
    ("environment", "usable"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True),
        ({"TERM": "xterm", "CI": "false"}, True),
        ({"TERM": "xterm", "CI": "true"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_line_needs_a_terminal_that_a_person_looks_at(environment: dict[str, str], usable: bool) -> None:
    assert is_usable(FakeTerminal(), environment) == usable
    assert not is_usable(io.StringIO(), environment)


def test_incomplete_shares_are_yellow_and_failures_stand_out() -> None:
    assert segments_of("a", FIGURES) == (
        Segment("a"),
        Segment("pods 2/3", YELLOW),
        Segment("nodes 1/1", GREEN),
        Segment("loops 48/48", GREEN),
        Segment("errors 0", PLAIN),
        Segment("restarts 0", PLAIN),
    )
    failed = segments_of("a", PlaneFigures(3, 3, 1, 1, 48, 47, 5, 2, True))
    assert failed[3:] == (Segment("loops 47/48", YELLOW), Segment("errors 5", RED), Segment("restarts 2", YELLOW))


def test_standby_has_no_pods_and_nodes() -> None:
    standby = segments_of("a", PlaneFigures(0, 0, 0, 0, 48, 48, 0, 0, False))
    assert [one.text for one in standby] == ["a", "loops 48/48", "errors 0", "restarts 0"]


@pytest.mark.parametrize(("seconds", "pause"), [(0.0, 1.0), (0.005, 1.0), (0.05, 5.0)])
def test_counting_takes_at_most_one_percent_of_the_time(seconds: float, pause: float) -> None:
    assert pause_after(seconds) == pytest.approx(pause)
