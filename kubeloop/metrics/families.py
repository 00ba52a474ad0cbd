# SPDX-License-Identifier: Apache-2.0
"""Families of counters, gauges, histograms and summaries: the samples of one name, by their label values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from kubeloop.metrics.exposition import MetricDesc, Sample, family_lines
from kubeloop.metrics.values import Histogram, MetricValue, Summary

Child = TypeVar("Child", MetricValue, Histogram, Summary)
# Samples by label values, computed on collection.
Collected: TypeAlias = Mapping[Any, float] | Mapping[Any, Histogram]


class MetricFamily(Generic[Child]):
    """Samples of one name, by their label values."""

    def __init__(self, desc: MetricDesc, make: Callable[[], Child]) -> None:
        self.desc = desc
        self._make: Callable[[], Child] = make
        # A sample is in one of these.
        self._children: dict[tuple[str, ...], Child] = {}
        self._functions: dict[tuple[str, ...], Callable[[], float]] = {}
        self._collect: Callable[[], Collected] | None = None

    def with_labels(self, *values: str) -> Child:
        """Return the sample with these label values, created on first use. Keep it for the hot path."""
        try:
            return self._children[values]
        except KeyError:
            child = self._children[self._checked(values)] = self._make()
            self._functions.pop(values, None)
            return child

    def set_function(self, function: Callable[[], float], *values: str) -> None:
        """Set a function that returns the sample of these label values on collection."""
        self._functions[self._checked(values)] = function
        self._children.pop(values, None)

    def set_collector(self, collect: Callable[[], Collected]) -> None:
        """Set a function that returns further samples by labels on collection."""
        self._collect = collect

    def drop(self, *values: str) -> None:
        """Remove a sample."""
        self._children.pop(values, None)
        self._functions.pop(values, None)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the text format; none for a family without samples."""
        samples = [*self._samples(), *(self._collect().items() if self._collect is not None else ())]
        return family_lines(self.desc, sorted(samples, key=lambda one: tuple(one[0]))) if samples else iter(())

    def _samples(self) -> Iterator[Sample]:
        for values, child in list(self._children.items()):
            yield values, child.value if isinstance(child, MetricValue) else child
        for values, function in list(self._functions.items()):
            yield values, function()

    def _checked(self, values: tuple[str, ...]) -> tuple[str, ...]:
        desc = self.desc
        if len(values) != len(desc.labels):
            raise ValueError(f"{desc.name} has the labels {desc.labels}, not {len(values)} values")
        return values
