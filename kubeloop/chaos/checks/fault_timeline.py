# SPDX-License-Identifier: Apache-2.0
"""Timeline of faults, from which the guarantees at each moment follow.

outages   ─┬─▶ excused: etcd had no majority, or no API server was available       ─▶ clients may be refused
           └─▶ all other time: other processes take over the work of the faulty one ─▶ clients may not
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import msgspec

from kubeloop.chaos.checks.time_constants import TimeConstants

# dead: connections to it break. silent: they hang. full: it answers, but can't write.
Kind = Literal["dead", "silent", "full"]


class Span(NamedTuple):
    """Time span."""

    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return self.ended - self.began

    def overlaps(self, other: Span) -> bool:
        """Return True if the spans overlap."""
        return self.began < other.ended and other.began < self.ended

    def extended_by(self, seconds: float) -> Span:
        """Return the span extended at its end."""
        return Span(self.began, self.ended + seconds)


class ProcessOutage(msgspec.Struct, frozen=True, kw_only=True):
    """Fault of a process, from its beginning until the process was ready again after recovery."""

    process: str
    kind: Kind
    began: float
    ended: float
    put_right: float | None = None
    by_itself: bool = False  # not caused by an injected fault

    @property
    def span(self) -> Span:
        """Time of the fault."""
        return Span(self.began, self.ended)


class FaultTimeline:
    """Guarantees of a control plane, given the faults of its processes."""

    def __init__(
        self,
        members: Mapping[str, Sequence[str]],
        outages: Iterable[ProcessOutage],
        pace: TimeConstants,
        began: float = 0.0,
    ) -> None:
        self.pace = pace
        self._began = began  # what people count from
        self._members = members
        self._outages = tuple(outages)
        self.without_majority = self._too_few("etcd", len(members["etcd"]) // 2 + 1) if members["etcd"] else ()
        # Failures in these times are excused.
        self.unguaranteed = merge_spans((*self.without_majority, *self._too_few("apiserver", 1)))

    def format_time(self, moment: float) -> str:
        """Format a moment as seconds since the start."""
        return f"{moment - self._began:.1f} s"

    def outages_of(self, component: str, span: Span, aftermath: float = 0.0) -> list[ProcessOutage]:
        """Return the faults of a component within a time, or shortly before it."""
        names = self._members[component]
        return [one for one in self._outages if one.process in names and one.span.extended_by(aftermath).overlaps(span)]

    def outages_of_process(self, process: str) -> list[ProcessOutage]:
        """Return the faults of a process."""
        return [one for one in self._outages if one.process == process]

    def is_unguaranteed(self, span: Span) -> bool:
        """Return True if the span overlaps a time without guarantees."""
        return any(span.overlaps(excuse) for excuse in self.unguaranteed)

    def guaranteed_seconds(self, span: Span) -> float:
        """Return the seconds of a span with guaranteed service."""
        return total_seconds(subtract_spans(span, self.unguaranteed))

    def names(self, component: str) -> Sequence[str]:
        """Return the processes of a component."""
        return self._members.get(component, ())

    def recoveries(self) -> Iterator[tuple[ProcessOutage, float]]:
        """Yield each recovered fault with its recovery time, without times that lack an etcd majority."""
        for one in self._outages:
            if one.put_right is not None:
                yield one, total_seconds(subtract_spans(Span(one.put_right, one.ended), self.without_majority))

    def _too_few(self, component: str, needed: int) -> tuple[Span, ...]:
        """Return the times with fewer members than needed, until the cluster has recovered."""
        names = self._members[component]
        away = [one for one in self._outages if one.process in names and one.kind != "full"]
        moments = sorted({moment for one in away for moment in one.span})
        found = merge_spans(
            Span(began, ended)
            for began, ended in pairwise(moments)
            if len(names) - len({one.process for one in away if one.began <= began and ended <= one.ended}) < needed
        )
        return merge_spans(span.extended_by(self.pace.recovery + self.pace.slack) for span in found)


def merge_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Merge overlapping spans, in order."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.began <= found[-1].ended:
            found[-1] = Span(found[-1].began, max(found[-1].ended, span.ended))
        else:
            found.append(span)
    return tuple(found)


def subtract_spans(span: Span, holes: Iterable[Span]) -> Iterator[Span]:
    """Yield the parts of a span outside of the holes."""
    at = span.began
    for hole in merge_spans(hole for hole in holes if hole.overlaps(span)):
        if at < hole.began:
            yield Span(at, hole.began)
        at = max(at, hole.ended)
    if at < span.ended:
        yield Span(at, span.ended)


def total_seconds(spans: Iterable[Span]) -> float:
    """Return the total length of spans."""
    return sum(span.seconds for span in spans)
