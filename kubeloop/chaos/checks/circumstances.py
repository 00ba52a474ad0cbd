"""Who was ill and when, and so what could be expected of a plane at each moment.

illnesses ─┬─▶ excused: etcd had no majority, or no API server was there          ─▶ clients may be refused
           └─▶ all other time: somebody else does the work of whoever is ill      ─▶ clients may not
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import msgspec

from kubeloop.chaos.checks.pace import Pace

# dead: connections to it break. silent: they hang. full: it answers, but can't write.
Kind = Literal["dead", "silent", "full"]


class Span(NamedTuple):
    """From one moment to another."""

    began: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    def touches(self, other: Span) -> bool:
        return self.began < other.ended and other.began < self.ended

    def longer_by(self, seconds: float) -> Span:
        return Span(self.began, self.ended + seconds)


class Illness(msgspec.Struct, frozen=True, kw_only=True):
    """A process that was not itself; it was put right, and then took its time to say that it was ready again."""

    process: str
    kind: Kind
    began: float
    ended: float
    put_right: float | None = None
    by_itself: bool = False  # nobody had done anything to it

    @property
    def span(self) -> Span:
        return Span(self.began, self.ended)


class Circumstances:
    """What was to be expected of a plane of some processes, given who of them was ill."""

    def __init__(
        self, members: Mapping[str, Sequence[str]], illnesses: Iterable[Illness], pace: Pace, began: float = 0.0
    ) -> None:
        self.pace = pace
        self._began = began  # what people count from
        self._members = members
        self._illnesses = tuple(illnesses)
        self.without_majority = self._too_few("etcd", len(members["etcd"]) // 2 + 1) if members["etcd"] else ()
        # What happens in these may be laid to nobody's charge but theirs who were gone.
        self.excused = merged((*self.without_majority, *self._too_few("apiserver", 1)))

    def at(self, moment: float) -> str:
        """In words."""
        return f"{moment - self._began:.1f} s"

    def of(self, component: str, span: Span, aftermath: float = 0.0) -> list[Illness]:
        """Who of a component was ill within a time, or shortly before it."""
        names = self._members[component]
        return [one for one in self._illnesses if one.process in names and one.span.longer_by(aftermath).touches(span)]

    def of_process(self, process: str) -> list[Illness]:
        return [one for one in self._illnesses if one.process == process]

    def is_excused(self, span: Span) -> bool:
        return any(span.touches(excuse) for excuse in self.excused)

    def answerable(self, span: Span) -> float:
        """How much of a time service was promised for."""
        return total(without(span, self.excused))

    def names(self, component: str) -> Sequence[str]:
        return self._members.get(component, ())

    def returns(self) -> Iterator[tuple[Illness, float]]:
        """How long everybody who was put right took to be ready; what nobody can be without does not count."""
        for one in self._illnesses:
            if one.put_right is not None:
                yield one, total(without(Span(one.put_right, one.ended), self.without_majority))

    def _too_few(self, component: str, needed: int) -> tuple[Span, ...]:
        """When fewer than are needed were there, and until all have found each other again."""
        names = self._members[component]
        away = [one for one in self._illnesses if one.process in names and one.kind != "full"]
        moments = sorted({moment for one in away for moment in one.span})
        found = merged(
            Span(began, ended)
            for began, ended in pairwise(moments)
            if len(names) - len({one.process for one in away if one.began <= began and ended <= one.ended}) < needed
        )
        return merged(span.longer_by(self.pace.recovery + self.pace.breath) for span in found)


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same time, in as few spans as possible, in order."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.began <= found[-1].ended:
            found[-1] = Span(found[-1].began, max(found[-1].ended, span.ended))
        else:
            found.append(span)
    return tuple(found)


def without(span: Span, holes: Iterable[Span]) -> Iterator[Span]:
    """What is left of a time."""
    at = span.began
    for hole in merged(hole for hole in holes if hole.touches(span)):
        if at < hole.began:
            yield Span(at, hole.began)
        at = max(at, hole.ended)
    if at < span.ended:
        yield Span(at, span.ended)


def total(spans: Iterable[Span]) -> float:
    return sum(span.seconds for span in spans)
