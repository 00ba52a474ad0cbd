"""Families of counters, gauges and histograms in Prometheus' text format: told apart by labels, shown once touched."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

Values = tuple[str, ...]


class Counters:
    """Numbers that only grow."""

    def __init__(self, name: str, *labels: str) -> None:
        self._name = name
        self._labels = labels
        self._counts: dict[Values, float] = {}

    def add(self, *values: str, amount: float = 1) -> None:
        self._counts[values] = self._counts.get(values, 0) + amount

    def lines(self) -> Iterator[str]:
        if self._counts:
            yield f"# TYPE {self._name} counter"
        for values, count in self._counts.items():
            yield f"{self._name}{labelled(self._labels, values)} {count}"


class Gauges:
    """Numbers as they are now."""

    def __init__(self, name: str, *labels: str) -> None:
        self._name = name
        self._labels = labels
        self._values: dict[Values, float] = {}

    def set(self, value: float, *values: str) -> None:
        self._values[values] = value

    def remove(self, *values: str) -> None:
        self._values.pop(values, None)

    def lines(self) -> Iterator[str]:
        if self._values:
            yield f"# TYPE {self._name} gauge"
        for values, value in self._values.items():
            yield f"{self._name}{labelled(self._labels, values)} {value}"


class Histograms:
    """How often something took how long."""

    def __init__(self, name: str, buckets: Sequence[float], *labels: str) -> None:
        self._name = name
        self._buckets = tuple(buckets)
        self._labels = labels
        self._found: dict[Values, tuple[list[int], list[float]]] = {}

    def observe(self, seconds: float, *values: str) -> None:
        found = self._found.get(values)
        if found is None:
            found = self._found[values] = [0] * (len(self._buckets) + 1), [0.0]
        counts, total = found
        counts[bisect_left(self._buckets, seconds)] += 1
        total[0] += seconds

    def lines(self) -> Iterator[str]:
        if self._found:
            yield f"# TYPE {self._name} histogram"
        for values, (counts, total) in self._found.items():
            running = 0
            for bound, count in zip((*self._buckets, "+Inf"), counts, strict=True):
                running += count
                yield f"{self._name}_bucket{labelled((*self._labels, 'le'), (*values, str(bound)))} {running}"
            yield f"{self._name}_sum{labelled(self._labels, values)} {total[0]}"
            yield f"{self._name}_count{labelled(self._labels, values)} {running}"


_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def labelled(names: Sequence[str], values: Sequence[str]) -> str:
    if not names:
        return ""
    return (
        "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True)) + "}"
    )


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bounds of buckets, each so many times the one before."""
    return tuple(start * factor**index for index in range(count))
