# SPDX-License-Identifier: Apache-2.0
"""Sets of completion indexes, stored and formatted as ranges: `1,3-5,7`. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Span = tuple[int, int]  # first and last


@dataclass(frozen=True, slots=True)
class Indexes:
    """Indexes as ordered spans that neither touch nor overlap."""

    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Indexes:
        """Build the set from single indexes."""
        return cls(_joined((index, index) for index in sorted(indexes)))

    @classmethod
    def parse(cls, text: str, completions: int) -> Indexes:
        """Parse the indexes below the number of completions; invalid parts are skipped."""
        spans = [span for part in text.split(",") if (span := _span(part)) and span[0] < completions]
        return cls(_joined((first, min(last, completions - 1)) for first, last in spans))

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.spans)

    def __contains__(self, index: int) -> bool:
        place = bisect_left(self.spans, index, key=lambda span: span[1])
        return place < len(self.spans) and self.spans[place][0] <= index

    def __or__(self, other: Indexes) -> Indexes:
        if not other.spans:
            return self
        return Indexes(_joined(sorted(self.spans + other.spans)))

    def __str__(self) -> str:
        return ",".join(_text(first, last) for first, last in self.spans)

    def count_common(self, other: Indexes) -> int:
        """Return the number of indexes in both sets."""
        count, mine, theirs = 0, 0, 0
        while mine < len(self.spans) and theirs < len(other.spans):
            (first, last), (start, end) = self.spans[mine], other.spans[theirs]
            count += max(0, min(last, end) - max(first, start) + 1)
            mine, theirs = mine + (last <= end), theirs + (end <= last)
        return count

    def missing(self, completions: int) -> Iterator[int]:
        """Return the indexes below the number of completions that are not in the set, in order."""
        candidate = 0
        for first, last in self.spans:
            yield from range(candidate, min(first, completions))
            candidate = max(candidate, last + 1)
        yield from range(candidate, completions)


def _joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Join spans that touch or overlap, given in the order of their starts."""
    result: list[Span] = []
    for first, last in spans:
        if result and first <= result[-1][1] + 1:
            result[-1] = result[-1][0], max(result[-1][1], last)
        else:
            result.append((first, last))
    return tuple(result)


def _span(part: str) -> Span | None:
    first, dash, last = part.partition("-")
    try:
        return int(first), int(last if dash else first)
    except ValueError:
        return None


def _text(first: int, last: int) -> str:
    """Format a span: two neighbours as a list, more as a range."""
    return str(first) if first == last else f"{first}{',' if last == first + 1 else '-'}{last}"
