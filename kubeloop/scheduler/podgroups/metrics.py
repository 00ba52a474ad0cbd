# SPDX-License-Identifier: Apache-2.0
"""Metrics of pod groups, under upstream's names; registered with the feature gates that they belong to."""

from __future__ import annotations

from typing import Final

from kubeloop.api.features.gates import Features
from kubeloop.metrics import MetricRegistry
from kubeloop.scheduler.framework.status import CODE_NAMES, Code, Status
from kubeloop.scheduler.podgroups.result import PodGroupPostFilterResult
from kubeloop.scheduler.status.metrics import SchedulerMetrics

_SECONDS: Final = tuple(0.001 * 2**power for power in range(15))
_LONG_SECONDS: Final = tuple(0.001 * 2**power for power in range(16))
_NUMBERS: Final = tuple(float(2**power) for power in range(11))
_TOPOLOGY: Final = "TopologyAwareWorkloadScheduling"


class PodGroupMetrics:
    """Counters and histograms of pod groups."""

    def __init__(self, registry: MetricRegistry, pods: SchedulerMetrics, features: Features) -> None:
        self._pods = pods
        self._results = registry.counter("scheduler_podgroup_schedule_attempts_total", "result", "profile")
        self._durations = registry.histogram(
            "scheduler_podgroup_scheduling_attempt_duration_seconds", "result", "profile", bounds=_SECONDS
        )
        self._decisions = registry.histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds", bounds=_SECONDS
        ).with_labels()
        self._preemptions = registry.counter("scheduler_workload_preemption_attempts_total", "result")
        self._victims = registry.histogram("scheduler_workload_preemption_victims", bounds=_NUMBERS).with_labels()
        self._disruptions = registry.histogram(
            "scheduler_preemption_workload_disruptions", "preemptor", bounds=_NUMBERS
        )
        self._is_topology_aware = features.is_enabled(_TOPOLOGY)
        if self._is_topology_aware:
            self._placements = registry.counter("scheduler_generated_placements_total", "profile")
            self._evaluations = registry.counter("scheduler_placement_evaluations_total", "result", "profile")
            self._evaluation_seconds = registry.histogram(
                "scheduler_placement_evaluation_duration_seconds", "result", "profile", bounds=_SECONDS
            )

    def observe_pod(self, seconds: float) -> None:
        """Observe the decision for one pod."""
        self._pods.observe_algorithm(seconds)

    def observe_algorithm(self, seconds: float) -> None:
        """Observe the decision for a topmost group."""
        self._decisions.observe(seconds)

    def count_attempt(self, result: str, profile: str, seconds: float) -> None:
        """Count an attempt for a topmost group, and observe its duration."""
        self._results.with_labels(result, profile).increment()
        self._durations.with_labels(result, profile).observe(seconds)

    def observe_preemption(self, found: PodGroupPostFilterResult | Status | None) -> None:
        """Count a preemption attempt by its result, and observe its victims."""
        if found is None:
            return
        code = Code.SUCCESS if isinstance(found, PodGroupPostFilterResult) else found.code
        self._preemptions.with_labels(CODE_NAMES[code]).increment()
        if isinstance(found, PodGroupPostFilterResult) and found.victims:
            self._victims.observe(float(found.victims))
            self._disruptions.with_labels("podgroup").observe(float(found.disrupted_groups))

    def count_placements(self, profile: str, number: int) -> None:
        """Count the placements that were generated for a pod group."""
        if self._is_topology_aware:
            self._placements.with_labels(profile).increment(number)

    def observe_placement(self, profile: str, feasible: bool, seconds: float) -> None:
        """Count the evaluation of a placement, and observe its duration."""
        result = "feasible" if feasible else "infeasible"
        self._evaluations.with_labels(result, profile).increment()
        self._evaluation_seconds.with_labels(result, profile).observe(seconds)
