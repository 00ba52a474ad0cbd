"""Labelled counters, gauges and histograms in Prometheus text format; a series appears once it has been set."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

Values = tuple[str, ...]


class CounterFamily:
    """Family of monotonic counters, one for each combination of label values."""

    def __init__(self, name: str, *labels: str) -> None:
        self._name = name
        self._labels = labels
        self._counts: dict[Values, float] = {}

    def add(self, *values: str, amount: float = 1) -> None:
        """Add an amount to the counter with these label values."""
        self._counts[values] = self._counts.get(values, 0) + amount

    def lines(self) -> Iterator[str]:
        """Yield the family in Prometheus text format; nothing if no counter has been touched."""
        if self._counts:
            yield f"# TYPE {self._name} counter"
        for values, count in self._counts.items():
            yield f"{self._name}{format_labels(self._labels, values)} {count}"


class GaugeFamily:
    """Family of gauges, one for each combination of label values."""

    def __init__(self, name: str, *labels: str) -> None:
        self._name = name
        self._labels = labels
        self._values: dict[Values, float] = {}

    def set(self, value: float, *values: str) -> None:
        """Set the gauge with these label values."""
        self._values[values] = value

    def remove(self, *values: str) -> None:
        """Remove the gauge with these label values."""
        self._values.pop(values, None)

    def lines(self) -> Iterator[str]:
        """Yield the family in Prometheus text format; nothing if no gauge is set."""
        if self._values:
            yield f"# TYPE {self._name} gauge"
        for values, value in self._values.items():
            yield f"{self._name}{format_labels(self._labels, values)} {value}"


class HistogramFamily:
    """Family of duration histograms, one for each combination of label values."""

    def __init__(self, name: str, buckets: Sequence[float], *labels: str) -> None:
        self._name = name
        self._buckets = tuple(buckets)
        self._labels = labels
        self._found: dict[Values, tuple[list[int], list[float]]] = {}

    def observe(self, seconds: float, *values: str) -> None:
        """Record a duration in seconds under these label values."""
        found = self._found.get(values)
        if found is None:
            found = self._found[values] = [0] * (len(self._buckets) + 1), [0.0]
        counts, total = found
        counts[bisect_left(self._buckets, seconds)] += 1
        total[0] += seconds

    def lines(self) -> Iterator[str]:
        """Yield buckets, sum and count of each histogram in Prometheus text format."""
        if self._found:
            yield f"# TYPE {self._name} histogram"
        for values, (counts, total) in self._found.items():
            running = 0
            for bound, count in zip((*self._buckets, "+Inf"), counts, strict=True):
                running += count
                yield f"{self._name}_bucket{format_labels((*self._labels, 'le'), (*values, str(bound)))} {running}"
            yield f"{self._name}_sum{format_labels(self._labels, values)} {total[0]}"
            yield f"{self._name}_count{format_labels(self._labels, values)} {running}"


_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def format_labels(names: Sequence[str], values: Sequence[str]) -> str:
    """Return the label set as `{name="value",…}`, escaped; empty without labels."""
    if not names:
        return ""
    return (
        "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True)) + "}"
    )


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return the upper bounds of exponential buckets, each `factor` times the previous one."""
    return tuple(start * factor**index for index in range(count))
