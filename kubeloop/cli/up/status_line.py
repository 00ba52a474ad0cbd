# SPDX-License-Identifier: Apache-2.0
"""Live status line of `kubeloop up` on a terminal: pods, nodes, control loops, errors and restarts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from kubeloop.cli.program.terminal_line import GREEN, PLAIN, RED, YELLOW, Segment, TerminalLine, is_usable, open_line
from kubeloop.cli.up.control_plane import PlaneFigures, RunningControlPlane
from kubeloop.clock import Clock, SystemClock

PERIOD_SECONDS: Final = 1.0
_PAUSE_RATIO: Final = 100  # how many times as long as counting took the pause is at least: pods may be many


def open_status_line(environment: Mapping[str, str], cleanup: ExitStack) -> Callable[[RunningControlPlane], None]:
    """Open the line, if the terminal can show it; returns the function that starts to show a control plane."""
    if not is_usable(sys.stderr, environment):
        return lambda _: None
    line = open_line(sys.stdout, sys.stderr, environment, cleanup)

    def show(plane: RunningControlPlane) -> None:
        plane.add_task(update_line(line, plane, SystemClock()))

    return show


async def update_line(line: TerminalLine, plane: RunningControlPlane, clock: Clock) -> None:
    """Show the figures of a control plane until cancelled; then remove the line."""
    try:
        while True:
            began = clock.monotonic()
            figures = plane.figures()
            pause = pause_after(clock.monotonic() - began)
            line.show(segments_of(plane.record.name, figures))
            await asyncio.sleep(pause)
    finally:
        line.clear()


def pause_after(seconds: float) -> float:
    """Return the pause after counting for some seconds: counting takes at most one percent of the time."""
    return max(PERIOD_SECONDS, seconds * _PAUSE_RATIO)


def segments_of(name: str, figures: PlaneFigures) -> Sequence[Segment]:
    """Return the parts of the line, the most important first."""
    shares = [("loops", figures.healthy_loops, figures.loops)]
    if figures.synced:
        pods, nodes = (figures.ready_pods, figures.pods), (figures.ready_nodes, figures.nodes)
        shares = [("pods", *pods), ("nodes", *nodes), *shares]
    counts = (("errors", figures.errors, RED), ("restarts", figures.restarts, YELLOW))
    return (
        Segment(name),
        *(Segment(f"{what} {part}/{whole}", GREEN if part == whole else YELLOW) for what, part, whole in shares),
        *(Segment(f"{what} {count}", color if count else PLAIN) for what, count, color in counts),
    )
