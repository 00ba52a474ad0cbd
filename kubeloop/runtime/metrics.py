"""Metrics registry that renders Prometheus' text format, with minimal cost per count.

A family is looked up once, at construction; the hot path changes a plain attribute. Values that can be read on
collection (a depth, an existing count) are not counted: the registry holds a function.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite, isnan
from typing import Generic, Literal, TypeVar

Kind = Literal["counter", "gauge", "histogram"]


class MetricValue:
    """Counter or gauge: add to it or set it."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0


class Histogram:
    """Counts by bucket, with their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


Child = TypeVar("Child", MetricValue, Histogram)


class MetricFamily(Generic[Child]):
    """Samples of one name, by their label values."""

    def __init__(self, name: str, kind: Kind, about: str, labels: tuple[str, ...], make: Callable[[], Child]) -> None:
        self.name = name
        self._kind = kind
        self._about = about
        self._labels = labels
        self._make: Callable[[], Child] = make
        self._children: dict[tuple[str, ...], Child | Callable[[], float]] = {}
        self._count: Callable[[], Mapping[tuple[str, ...], float]] | None = None

    def of(self, *values: str) -> Child:
        """Return the sample with these label values, created on first use. Keep it for the hot path."""
        child = self._children.get(values)
        if child is None or callable(child):
            child = self._children[self._checked(values)] = self._make()
        return child

    def read(self, function: Callable[[], float], *values: str) -> None:
        """Set a function that returns the sample of these label values on collection."""
        self._children[self._checked(values)] = function

    def collect(self, count: Callable[[], Mapping[tuple[str, ...], float]]) -> None:
        """Set a function that returns further samples by labels on collection."""
        self._count = count

    def drop(self, *values: str) -> None:
        """Remove a sample."""
        self._children.pop(values, None)

    def _checked(self, values: tuple[str, ...]) -> tuple[str, ...]:
        if len(values) != len(self._labels):
            raise ValueError(f"{self.name} has the labels {self._labels}, not {len(values)} values")
        return values

    def lines(self) -> Iterator[str]:
        """Yield the lines of the text format."""
        collected = self._count() if self._count is not None else {}
        if not self._children and not collected:
            return
        yield f"# HELP {self.name} {self._about}"
        yield f"# TYPE {self.name} {self._kind}"
        for values, child in list(self._children.items()):
            labels = list(zip(self._labels, values, strict=True))
            if isinstance(child, Histogram):
                yield from _histogram_lines(self.name, labels, child)
            else:
                value = child.value if isinstance(child, MetricValue) else child()
                yield f"{self.name}{_braced(labels)} {_number(value)}"
        for values, value in sorted(collected.items()):
            yield f"{self.name}{_braced(list(zip(self._labels, values, strict=True)))} {_number(value)}"


class MetricRegistry:
    """All families of a process, each registered once."""

    def __init__(self) -> None:
        self._values: dict[str, MetricFamily[MetricValue]] = {}
        self._histograms: dict[str, MetricFamily[Histogram]] = {}

    def counter(self, name: str, about: str, *labels: str) -> MetricFamily[MetricValue]:
        """Return the counter family of a name, created on first use."""
        return self._value(name, "counter", about, labels)

    def gauge(self, name: str, about: str, *labels: str) -> MetricFamily[MetricValue]:
        """Return the gauge family of a name, created on first use."""
        return self._value(name, "gauge", about, labels)

    def histogram(self, name: str, about: str, *labels: str, bounds: Sequence[float]) -> MetricFamily[Histogram]:
        """Return the histogram family of a name, created on first use."""
        found = self._histograms.get(name)
        if found is None:
            found = MetricFamily(name, "histogram", about, labels, lambda: Histogram(bounds))
            self._histograms[name] = found
        return found

    @property
    def names(self) -> frozenset[str]:
        """Return the names of all families, also of those without samples."""
        return frozenset((*self._values, *self._histograms))

    def render(self) -> str:
        """Return all families as text, by name."""
        families: dict[str, MetricFamily[MetricValue] | MetricFamily[Histogram]] = {**self._values, **self._histograms}
        lines = [line for name in sorted(families) for line in families[name].lines()]
        return "".join(line + "\n" for line in lines)

    def _value(self, name: str, kind: Kind, about: str, labels: tuple[str, ...]) -> MetricFamily[MetricValue]:
        found = self._values.get(name)
        if found is None:
            found = self._values[name] = MetricFamily(name, kind, about, labels, MetricValue)
        return found


def exponential_bounds(first: float, factor: float, count: int) -> tuple[float, ...]:
    """Return bounds that each are a factor larger than the one before."""
    bounds = [first]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


def _histogram_lines(name: str, labels: list[tuple[str, str]], histogram: Histogram) -> Iterator[str]:
    running = 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        running += count
        yield f"{name}_bucket{_braced([*labels, ('le', _number(bound))])} {running}"
    yield f"{name}_sum{_braced(labels)} {_number(histogram.total)}"
    yield f"{name}_count{_braced(labels)} {running}"


def _braced(labels: list[tuple[str, str]]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    """Format a number as Go does: no point if it is whole."""
    if not isfinite(value):
        return "NaN" if isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)
