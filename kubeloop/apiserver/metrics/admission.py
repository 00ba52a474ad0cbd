# SPDX-License-Identifier: Apache-2.0
"""Durations of admission plugins and admission steps.

Every run of a step is counted, but only one of 64 is timed; it stands for the untimed runs before it. Reading the
clock after each plugin of each write would cost more than most plugins do. A run that waits is timed from there on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from kubeloop.clock import Clock
from kubeloop.metrics import Histogram, MetricRegistry, Summary

_BOUNDS: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_STEP: Final = "apiserver_admission_step_admission_duration_seconds"
_STEP_LABELS: Final = ("type", "operation", "rejected")
# Runs of a step from one timed run to the next.
_TIMED_EVERY: Final = 64


class StepSeries:
    """Runs of the plugins in one step for one kind of write.

    `left` is the number of runs until the next timed one; an untimed run takes one from it. `_period` runs, of which
    those already made are not in the histograms yet, end with that timed run. Runs of a step without plugins take no
    time: `empty_runs` counts them until they are in the histograms.
    """

    __slots__ = ("_period", "_plugins", "_step", "_summary", "empty_runs", "left", "names")

    def __init__(self, plugins: dict[str, Histogram], step: Histogram | None, summary: Summary | None) -> None:
        self.names = tuple(plugins)
        self._plugins = tuple(plugins.values())
        self._step = step  # None for quota: a part of the validating step, which is observed already
        self._summary = summary
        self.left = 0
        self.empty_runs = 0
        self._period = 1

    def observe(self, readings: Sequence[float]) -> None:
        """Count a timed run by its clock readings, before the first plugin and after each."""
        times, self._period, self.left = self._period, _TIMED_EVERY, _TIMED_EVERY - 1
        self.observe_plugins(readings, times=times)
        self.observe_step(readings[-1] - readings[0], times)

    def observe_plugins(self, readings: Sequence[float], first: int = 0, times: int = 1) -> None:
        """Count the calls of the plugins between clock readings, from the first of them on."""
        for plugin, (began, ended) in zip(self._plugins[first:], pairwise(readings), strict=False):
            plugin.observe(ended - began, times)

    def observe_step(self, seconds: float, times: int = 1) -> None:
        """Count a run of the whole step."""
        if self._step is not None:
            self._step.observe(seconds, times)
        if self._summary is not None:
            self._summary.observe(seconds, times)

    def end_untimed(self, passed: int) -> list[float]:
        """Count the first plugins of an untimed run that does not pass all; returns estimated clock readings."""
        self.left += 1
        readings = [0.0]
        for plugin in self._plugins[: passed + 1]:
            readings.append(readings[-1] + plugin.mean)
        self.observe_plugins(readings[: passed + 1])
        return readings

    def count_repeated(self, times: int) -> None:
        """Count runs whose result was known, so that no plugin was called."""
        for plugin in self._plugins:
            plugin.counts[0] += times
        if self._step is not None:
            self._step.counts[0] += times
        if self._summary is not None:
            self._summary.count += times

    def fold(self) -> None:
        """Count the untimed runs until now, in the lowest bucket of each plugin."""
        untimed, self._period = self._period - 1 - self.left, self.left + 1
        for plugin in self._plugins:
            plugin.counts[0] += untimed
        untimed += self.empty_runs
        self.empty_runs = 0
        if self._step is not None:
            self._step.counts[0] += untimed
        if self._summary is not None:
            self._summary.count += untimed


class AdmissionStepMetrics:
    """Durations of plugins and steps of one server."""

    def __init__(self, registry: MetricRegistry, clock: Clock) -> None:
        self.monotonic = clock.monotonic
        self._series: list[StepSeries] = []
        self._summaries = registry.summary(f"{_STEP}_summary", *_STEP_LABELS)
        self._plugins = registry.histogram(
            "apiserver_admission_controller_admission_duration_seconds", "name", *_STEP_LABELS, bounds=_BOUNDS
        )
        self._steps = registry.histogram(_STEP, *_STEP_LABELS, bounds=_BOUNDS)
        registry.add_refresher(self._fold)

    def step(self, kind: str, operation: str, plugins: Sequence[str], *, is_quota: bool) -> StepSeries:
        """Return the series of a step, "admit" (mutating) or "validate", with the names of its plugins."""
        labels = (kind, operation, "false")
        by_name = {name: self._plugins.with_labels(name, *labels) for name in plugins}
        step = None if is_quota else self._steps.with_labels(*labels)
        summary = None if is_quota else self._summaries.with_labels(*labels)
        found = StepSeries(by_name, step, summary)
        self._series.append(found)
        return found

    def count_rejection(self, name: str, kind: str, operation: str, readings: Sequence[float]) -> None:
        """Observe a plugin that rejected a write, by the clock readings until then."""
        labels, seconds = (kind, operation, "true"), readings[-1] - readings[0]
        self._plugins.with_labels(name, *labels).observe(readings[-1] - readings[-2])
        self._steps.with_labels(*labels).observe(seconds)
        self._summaries.with_labels(*labels).observe(seconds)

    def _fold(self) -> None:
        for one in self._series:
            one.fold()
