# SPDX-License-Identifier: Apache-2.0
"""Registry of metric families.

A family is looked up once, at construction; the hot path changes a plain attribute. Values that can be read on
collection (a depth, an existing count) are not counted: the registry holds a function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from kubeloop.metrics.exposition import Kind, MetricDesc
from kubeloop.metrics.families import MetricFamily
from kubeloop.metrics.values import Histogram, MetricValue, Summary

AnyFamily: TypeAlias = MetricFamily[MetricValue] | MetricFamily[Histogram] | MetricFamily[Summary]


class MetricRegistry:
    """All families of a process, each registered once.

    The help text of a family is the one in `help_texts.tsv` unless `about` is given.
    """

    def __init__(self) -> None:
        self._values: dict[str, MetricFamily[MetricValue]] = {}
        self._histograms: dict[str, MetricFamily[Histogram]] = {}
        self._summaries: dict[str, MetricFamily[Summary]] = {}
        self._refreshers: list[Callable[[], None]] = []
        self._pages: dict[str, MetricRegistry] = {}

    def page(self, path: str) -> MetricRegistry:
        """Return the registry of families that are read at another path only, created on first use."""
        return self._pages.setdefault(path, MetricRegistry())

    @property
    def pages(self) -> dict[str, MetricRegistry]:
        """Registries of other pages, by path."""
        return self._pages

    def counter(self, name: str, *labels: str, about: str | None = None) -> MetricFamily[MetricValue]:
        """Return the counter family of a name, created on first use."""
        return self._value(name, "counter", labels, about)

    def gauge(self, name: str, *labels: str, about: str | None = None) -> MetricFamily[MetricValue]:
        """Return the gauge family of a name, created on first use."""
        return self._value(name, "gauge", labels, about)

    def histogram(
        self, name: str, *labels: str, bounds: Sequence[float], about: str | None = None
    ) -> MetricFamily[Histogram]:
        """Return the histogram family of a name, created on first use."""
        found = self._histograms.get(name)
        if found is None:
            desc = MetricDesc(name, "histogram", labels, about)
            found = self._histograms[name] = MetricFamily(desc, lambda: Histogram(bounds))
        return found

    def summary(self, name: str, *labels: str, about: str | None = None) -> MetricFamily[Summary]:
        """Return the summary family of a name, created on first use."""
        found = self._summaries.get(name)
        if found is None:
            found = self._summaries[name] = MetricFamily(MetricDesc(name, "summary", labels, about), Summary)
        return found

    @property
    def names(self) -> frozenset[str]:
        """Return the names of all families, also of those without samples."""
        return frozenset(self.families())

    def families(self) -> dict[str, AnyFamily]:
        """Return all families by name, also those without samples."""
        return {**self._values, **self._histograms, **self._summaries}

    def add_refresher(self, refresh: Callable[[], None]) -> None:
        """Add a function that completes the values of its families before they are read."""
        self._refreshers.append(refresh)

    def refresh(self) -> None:
        """Complete all values."""
        for refresh in self._refreshers:
            refresh()

    def render(self) -> str:
        """Return all families as text, by name."""
        self.refresh()
        families = self.families()
        lines = [line for name in sorted(families) for line in families[name].lines()]
        return "".join(line + "\n" for line in lines)

    def _value(self, name: str, kind: Kind, labels: tuple[str, ...], about: str | None) -> MetricFamily[MetricValue]:
        found = self._values.get(name)
        if found is None:
            found = self._values[name] = MetricFamily(MetricDesc(name, kind, labels, about), MetricValue)
        return found
