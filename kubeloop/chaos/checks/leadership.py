# SPDX-License-Identifier: Apache-2.0
"""Checks that there was a leader whenever possible, and never two at once.

A lease must be renewed, by its leader or by the next one, within the time that a standby needs to take over: for as
long as one candidate is healthy, and so are enough of the servers that it needs. A candidate may not take a lease that
another one has renewed less than its duration ago, unless that one has released it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from kubeloop.chaos.checks.fault_timeline import FaultTimeline, Span, subtract_spans

# A correct clock can seem ahead of another by less than this: they are read one after the other.
_AT_ONCE = 0.05


class LeaseWrite(msgspec.Struct, frozen=True, kw_only=True):
    """Write of a lease."""

    lease: str
    holder: str  # empty if it was released
    written: float  # when, by a clock that is right
    length: float  # how long it is the holder's
    revision: int
    is_next: bool = True  # whether every one between the last and this would have been seen


class LeadershipResult(NamedTuple):
    """Result of the leadership check."""

    problems: list[str]
    takeovers: int  # leaders that replaced one that had not released the lease
    longest: float  # without a renewal, of the time in which one was promised


def written_at(said: float, told: float, wrong_by: Iterable[float]) -> float:
    """Return when a lease was written, given a timestamp by a clock that may be wrong by one of some offsets.

    It was before we received it, and mostly not long before.
    """
    possible = [said - offset for offset in (0.0, *wrong_by) if said - offset <= told + _AT_ONCE]
    return min(max(possible, default=told), told)


def check_leadership(
    renewals: Sequence[LeaseWrite], component: str, circumstances: FaultTimeline, run: Span
) -> LeadershipResult:
    """Check all renewals of a component's lease, in order, over the span of the run."""
    taken = [(last, new) for last, new in pairwise(renewals) if last.holder and new.holder not in ("", last.holder)]
    problems = [problem for last, new in taken if (problem := _usurpation(last, new))]
    longest = 0.0
    moments = [(run.began, True), *((one.written, one.is_next) for one in renewals), (run.ended, True)]
    for (since, _), (until, is_next) in pairwise(moments):
        gap = _longest_chance(Span(since, until), component, circumstances)
        if gap is None or not is_next:
            continue
        longest = max(longest, gap.seconds)
        allowed = allowed_age(gap, component, circumstances)
        if gap.seconds > allowed:
            problems.append(
                f"no candidate renewed the lease of {component} for {gap.seconds:.1f} s until"
                f" {circumstances.format_time(gap.ended)}, although a candidate was healthy; allowed are "
                f"{allowed:.1f} s"
            )
    return LeadershipResult(problems, len(taken), longest)


def _usurpation(last: LeaseWrite, new: LeaseWrite) -> str:
    age = new.written - last.written
    if age >= last.length:
        return ""
    return (
        f"{new.holder} took the lease {new.lease} {age:.2f} s after {last.holder} had renewed it,"
        f" although its duration is {last.length:g} s"
    )


def _longest_chance(span: Span, component: str, circumstances: FaultTimeline) -> Span | None:
    """Return the longest part of a span in which one candidate was healthy and could reach its servers."""
    chances = [
        chance
        for candidate in circumstances.names(component)
        for chance in subtract_spans(
            span,
            (*(outage.span for outage in circumstances.outages_of_process(candidate)), *circumstances.unguaranteed),
        )
    ]
    return max(chances, key=lambda chance: chance.seconds, default=None)


def allowed_age(span: Span, component: str, circumstances: FaultTimeline) -> float:
    """Return the longest allowed age of a lease within a span, given the servers' faults."""
    pace = circumstances.pace
    allowed = pace.takeover + pace.slack + pace.slowed_by
    hanging = pace.terms.renew_deadline / 2  # until a candidate gives a try up that is not answered
    # Each costs a try, and those that follow until the balancer sends new connections elsewhere.
    for outage in circumstances.outages_of("apiserver", span, pace.failover):
        allowed += pace.look + (pace.noticed + hanging if outage.kind == "silent" else 0.0)
    for outage in circumstances.outages_of("etcd", span, pace.election):
        allowed += pace.look + (pace.failover if outage.kind == "silent" else pace.election)
    # A partitioned process must first detect that its connections are dead.
    if any(one.kind == "silent" for one in circumstances.outages_of(component, span, pace.slack)):
        allowed += pace.look + hanging
    return allowed
