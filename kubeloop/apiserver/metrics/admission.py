# SPDX-License-Identifier: Apache-2.0
"""Durations of admission plugins and admission steps.

As with requests, a plugin within the first bucket of its histogram is counted in plain attributes.
"""

from __future__ import annotations

from typing import Final

from kubeloop.clock import Clock
from kubeloop.metrics import Histogram, MetricRegistry, Summary

_BOUNDS: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_FAST_SECONDS: Final = _BOUNDS[0]
_STEP: Final = "apiserver_admission_step_admission_duration_seconds"
_STEP_LABELS: Final = ("type", "operation", "rejected")


class AdmissionSeries:
    """Calls of one plugin, or of one step, with one operation and outcome."""

    __slots__ = ("fast", "name", "seconds", "slow", "summary")

    def __init__(self, name: str = "", summary: Summary | None = None) -> None:
        self.name = name
        self.fast = 0
        self.seconds = 0.0
        self.slow: Histogram | None = None
        self.summary = summary

    def observe(self, seconds: float) -> None:
        """Count a call by its duration."""
        if seconds <= _FAST_SECONDS:
            self.fast += 1
            self.seconds += seconds
            return
        if self.slow is None:
            self.slow = Histogram(_BOUNDS)
        self.slow.observe(seconds)

    def observe_step(self, seconds: float) -> None:
        """Count a step by its duration, also in its summary."""
        self.observe(seconds)
        if self.summary is not None:
            self.summary.observe(seconds)

    def histogram(self) -> Histogram:
        """Return the durations of all calls."""
        found = Histogram(_BOUNDS)
        found.add([self.fast, *[0] * len(_BOUNDS)], self.seconds)
        if self.slow is not None:
            found.add(self.slow.counts, self.slow.total)
        return found


class AdmissionStepMetrics:
    """Durations of plugins and steps of one server."""

    def __init__(self, registry: MetricRegistry, clock: Clock) -> None:
        self.monotonic = clock.monotonic
        self._plugins: dict[tuple[str, ...], AdmissionSeries] = {}
        self._steps: dict[tuple[str, ...], AdmissionSeries] = {}
        self._summaries = registry.summary(f"{_STEP}_summary", *_STEP_LABELS)
        registry.histogram(
            "apiserver_admission_controller_admission_duration_seconds", "name", *_STEP_LABELS, bounds=_BOUNDS
        ).set_collector(lambda: _histograms(self._plugins))
        registry.histogram(_STEP, *_STEP_LABELS, bounds=_BOUNDS).set_collector(lambda: _histograms(self._steps))

    def plugin(self, name: str, kind: str, operation: str, *, rejected: bool = False) -> AdmissionSeries:
        """Return the series of a plugin; keep it for the hot path."""
        return self._plugins.setdefault((name, kind, operation, _text(rejected)), AdmissionSeries(name))

    def count_rejection(self, name: str, kind: str, operation: str, last: float, began: float) -> None:
        """Observe a plugin that rejected a write; `last` and `began` are when it and the step began."""
        now = self.monotonic()
        self.plugin(name, kind, operation, rejected=True).observe(now - last)
        self.step(kind, operation, rejected=True).observe_step(now - began)

    def step(self, kind: str, operation: str, *, rejected: bool = False) -> AdmissionSeries:
        """Return the series of a step: "admit" (mutating) or "validate"; keep it for the hot path."""
        labels = (kind, operation, _text(rejected))
        found = self._steps.get(labels)
        if found is None:
            found = self._steps[labels] = AdmissionSeries("", self._summaries.with_labels(*labels))
        return found


def _histograms(series: dict[tuple[str, ...], AdmissionSeries]) -> dict[tuple[str, ...], Histogram]:
    return {labels: one.histogram() for labels, one in series.items() if one.fast or one.slow is not None}


def _text(rejected: bool) -> str:
    return "true" if rejected else "false"
