# SPDX-License-Identifier: Apache-2.0
"""Checks that clients were answered whenever a majority of etcd and an API server were available.

The only effects allowed for a client then:

    an API server dies or falls silent      one connection of each client breaks, and the next one does not
    an API server is silent                 a call takes longer by what the balancer needs to cut it off
    a member of etcd dies                   a call takes longer by an election
    a member of etcd is silent              … and by what an API server waits before it asks another member
    the disk of the only store is full      writes are refused, reads are not
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from kubeloop.chaos.checks.fault_timeline import FaultTimeline, ProcessOutage, Span, subtract_spans
from kubeloop.chaos.checks.history import Action

# broken: the connection ended. late: nothing came within the client's patience. refused: an answer that is none.
Failure = Literal["", "broken", "late", "refused"]


class ClientAttempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Call of one client, with its failure if it got no proper answer."""

    client: str
    action: Action
    called: float
    returned: float
    failure: Failure = ""
    message: str = ""  # outcome for the client
    on_purpose: bool = False  # the plan may have injected it

    @property
    def span(self) -> Span:
        """Time from call to answer."""
        return Span(self.called, self.returned)


class AvailabilityResult(NamedTuple):
    """Result of the availability check."""

    problems: list[str]
    promised: int  # calls that were to be answered
    broken: int  # connections that broke, of those
    longest: float  # that a client was without a proper answer, of the time for which one was promised


def check_availability(attempts: Iterable[ClientAttempt], circumstances: FaultTimeline) -> AvailabilityResult:
    """Check all attempts; those of a client are in the order in which it made them."""
    by_client: defaultdict[str, list[ClientAttempt]] = defaultdict(list)
    for attempt in attempts:
        by_client[attempt.client].append(attempt)
    problems: list[str] = []
    promised = broken = 0
    for own in by_client.values():
        used: set[ProcessOutage] = set()
        for attempt in own:
            is_promised = not circumstances.is_unguaranteed(attempt.span)
            promised += is_promised
            broken += is_promised and attempt.failure == "broken"
            problem = _failure_problem(attempt, circumstances, used) or _delay_problem(attempt, circumstances)
            if problem:
                problems.append(problem)
    longest = max((_longest_outage(own, circumstances) for own in by_client.values()), default=0.0)
    return AvailabilityResult(problems, promised, broken, longest)


def _failure_problem(attempt: ClientAttempt, circumstances: FaultTimeline, used: set[ProcessOutage]) -> str:
    """Return the problem of a failed attempt, if it is one; `used` are faults already excused once."""
    if not attempt.failure or attempt.on_purpose or circumstances.is_unguaranteed(attempt.span):
        return ""
    outages = circumstances.outages_of(
        "apiserver", attempt.span, circumstances.pace.failover + circumstances.pace.slack
    )
    if attempt.failure == "broken":
        for outage in outages:
            if outage.kind != "full" and outage not in used:
                used.add(outage)
                return ""
    elif attempt.action != "get" and any(outage.kind == "full" for outage in outages):
        return ""
    return (
        f"{_told(attempt)} failed at {circumstances.format_time(attempt.returned)}, although etcd had a quorum "
        f"and an API server was running: {attempt.failure}, {attempt.message}"
    )


def _delay_problem(attempt: ClientAttempt, circumstances: FaultTimeline) -> str:
    taken, allowed = circumstances.guaranteed_seconds(attempt.span), allowed_delay(attempt.span, circumstances)
    if taken <= allowed:
        return ""
    until = circumstances.format_time(attempt.returned)
    return f"{_told(attempt)} took {taken:.1f} s until {until}, where {allowed:.1f} s are enough"


def _told(attempt: ClientAttempt) -> str:
    return f"a {attempt.action} of {attempt.client}"


def allowed_delay(span: Span, circumstances: FaultTimeline) -> float:
    """Return the longest allowed duration of a call, given the faults at that time."""
    pace = circumstances.pace
    promised = list(subtract_spans(span, circumstances.unguaranteed))
    allowed = pace.slack + pace.slowed_by
    servers = {outage for part in promised for outage in circumstances.outages_of("apiserver", part, pace.failover)}
    members = {outage for part in promised for outage in circumstances.outages_of("etcd", part, pace.election)}
    allowed += sum(pace.cut for outage in servers if outage.kind == "silent")
    allowed += sum(pace.failover if outage.kind == "silent" else pace.election for outage in members)
    return allowed


def _longest_outage(attempts: Sequence[ClientAttempt], circumstances: FaultTimeline) -> float:
    """Return the longest time from a client's first failure to its next proper answer."""
    longest, since = 0.0, None
    for attempt in attempts:
        since = attempt.called if since is None else since
        if not attempt.failure:
            longest, since = max(longest, circumstances.guaranteed_seconds(Span(since, attempt.returned))), None
    return longest


def check_recoveries(circumstances: FaultTimeline) -> list[str]:
    """Check that every recovered process was ready again in time without intervention."""
    limit = circumstances.pace.start + circumstances.pace.slack
    return [
        f"{outage.process} took {taken:.1f} s to become ready again"
        for outage, taken in circumstances.recoveries()
        if taken > limit
    ]


def check_exits(ends: Iterable[tuple[str, float]], circumstances: FaultTimeline) -> list[str]:
    """Check that no process exited by itself without a reason, such as lost etcd or a lost lease."""
    reach = circumstances.pace.give_up + circumstances.pace.slack
    return [
        f"{process} exited at {circumstances.format_time(at)}, although all its dependencies were available"
        for process, at in ends
        if not _had_reason(process, Span(at - reach, at), circumstances)
    ]


def _had_reason(process: str, before: Span, circumstances: FaultTimeline) -> bool:
    pace = circumstances.pace
    if circumstances.is_unguaranteed(before):
        return True
    if process in circumstances.names("apiserver") or process in circumstances.names("etcd"):
        return False
    if pace.lost_tries or pace.slack > pace.terms.renew_deadline / 2:
        return True  # by chance, or because the machine is so busy, no try to renew came through in time
    servers = [*circumstances.outages_of("apiserver", before), *circumstances.outages_of("etcd", before)]
    own = [outage for outage in circumstances.outages_of_process(process) if outage.span.overlaps(before)]
    return any(not outage.by_itself for outage in (*servers, *own))
