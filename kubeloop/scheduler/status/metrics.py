# SPDX-License-Identifier: Apache-2.0
"""Scheduler metrics, under upstream's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kubeloop.clock import Clock
from kubeloop.metrics import Histogram, MetricRegistry
from kubeloop.scheduler.framework.status import Status
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo
from kubeloop.scheduler.queue.scheduling_queue import SchedulingQueue

_SHORT: Final = tuple(0.001 * 2**power for power in range(15))
_TINY: Final = tuple(0.00001 * 1.5**power for power in range(20))
_BRIEF: Final = tuple(0.0001 * 2**power for power in range(12))
_LONG: Final = tuple(0.01 * 2**power for power in range(20))
_FEW: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
_VICTIMS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_PREEMPTION: Final = tuple(0.001 * 2**power for power in range(16))
_MANY_ATTEMPTS: Final = 15
_POD: Final = "pod"  # type of a preemptor


class SchedulerMetrics:
    """Counters and histograms of a scheduler, read by the metrics registry on scrape."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.attempts = 0
        self.bound = 0
        self.errors = 0
        self.busy_seconds = 0.0
        self.last_error = ""
        self._registry = registry
        self._results = registry.counter("scheduler_schedule_attempts_total", "result", "profile")
        self._durations = registry.histogram(
            "scheduler_scheduling_attempt_duration_seconds", "result", "profile", bounds=_SHORT,
        )  # fmt: skip
        self._decisions = registry.histogram(
            "scheduler_scheduling_algorithm_duration_seconds", bounds=_SHORT
        ).with_labels()
        self._waits = registry.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds", "attempts", bounds=_LONG,
        )  # fmt: skip
        self._tries = registry.histogram("scheduler_pod_scheduling_attempts", bounds=_FEW).with_labels()
        self._incoming = registry.counter("scheduler_queue_incoming_pods_total", "queue", "event")
        self._incoming_entities = registry.counter("scheduler_queue_incoming_entities_total", "queue", "event", "type")
        self._points = registry.histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "extension_point",
            "status",
            "profile",
            bounds=_BRIEF,
        )
        self._plugin_seconds = registry.histogram(
            "scheduler_plugin_execution_duration_seconds", "plugin", "extension_point", "status", bounds=_TINY
        )
        self._evaluations = registry.counter(
            "scheduler_plugin_evaluation_total", "plugin", "extension_point", "profile"
        )
        self._successes: dict[tuple[str, str], Histogram] = {}  # of extension points, by name and profile
        self._events = registry.histogram("scheduler_event_handling_duration_seconds", "event", bounds=_BRIEF)
        self._flushed = registry.counter("scheduler_pod_scheduled_after_flush_total").with_labels()
        self._hints = registry.histogram(
            "scheduler_queueing_hint_execution_duration_seconds", "plugin", "event", "hint", bounds=_TINY,
        )  # fmt: skip
        self._permits = registry.histogram("scheduler_permit_wait_duration_seconds", "result", bounds=_SHORT)
        self._preemptions = registry.counter("scheduler_preemption_attempts_total").with_labels()
        self._evictions = registry.counter("scheduler_preemption_goroutines_execution_total", "result")
        self._eviction_seconds = registry.histogram(
            "scheduler_preemption_goroutines_duration_seconds", "result", bounds=_LONG,
        )  # fmt: skip
        self._evaluation_seconds = registry.histogram(
            "scheduler_preemption_evaluation_duration_seconds", "preemptor", "result", bounds=_PREEMPTION
        )
        self._execution_seconds = registry.histogram(
            "scheduler_preemption_execution_duration_seconds", "preemptor", "result", bounds=_PREEMPTION
        )
        self._budget_violations = registry.counter("scheduler_preemption_pdb_violations_total", "preemptor")
        self._victims = registry.histogram("scheduler_preemption_victims", bounds=_VICTIMS).with_labels()

    def register_queue_gauges(self, queue: SchedulingQueue) -> None:
        """Register gauges of the queue: pending pods by part, and unschedulable pods by plugin and profile."""
        pending = self._registry.gauge("scheduler_pending_pods", "queue")
        pending.set_collector(lambda: {(part,): float(number) for part, number in queue.sizes().items()})
        self._registry.gauge("scheduler_queued_entities", "queue", "type").set_collector(queue.entity_counts)
        refused = self._registry.gauge("scheduler_unschedulable_pods", "plugin", "profile")
        refused.set_collector(queue.unschedulable_counts)
        in_flight = self._registry.gauge("scheduler_inflight_events", "event")
        in_flight.set_collector(queue.in_flight_event_counts)

    def register_binding_gauge(self, count: Callable[[], float]) -> None:
        """Register a gauge of the number of binding cycles under way."""
        tasks = self._registry.gauge("scheduler_goroutines", "operation")
        tasks.set_function(count, "binding")

    def register_cache_gauges(self, sizes: Mapping[str, Callable[[], float]]) -> None:
        """Register gauges of the cache; `sizes` maps what is counted to a function."""
        gauge = self._registry.gauge("scheduler_cache_size", "type")
        for name, size in sizes.items():
            gauge.set_function(size, name)

    def observe_extension_points(self, profile: str, spent: Mapping[str, float], is_refused: bool) -> None:
        """Observe the time an attempt spent at each extension point, in order.

        With `is_refused`, the last of the extension points rejected the pod.
        """
        last = next(reversed(list(spent)), "") if is_refused else ""
        for point, seconds in spent.items():
            if point == last:
                self._points.with_labels(point, "Unschedulable", profile).observe(seconds)
                continue
            key = point, profile
            known = self._successes.get(key)
            if known is None:
                known = self._successes[key] = self._points.with_labels(point, "Success", profile)
            known.observe(seconds)

    def observe_extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """Observe the duration and status of one extension point."""
        self._points.with_labels(point, status, profile).observe(seconds)

    def observe_plugin(self, plugin: str, point: str, status: str, profile: str, seconds: float) -> None:
        """Count a call of a plugin and observe its duration."""
        self._evaluations.with_labels(plugin, point, profile).increment()
        self._plugin_seconds.with_labels(plugin, point, status).observe(seconds)

    def observe_event_handling(self, event: str, seconds: float) -> None:
        """Observe the duration of handling an event."""
        self._events.with_labels(event).observe(seconds)

    def observe_queueing_hint(self, plugin: str, event: str, result: str, seconds: float) -> None:
        """Observe the result and duration of a queueing hint."""
        self._hints.with_labels(plugin, event, result).observe(seconds)

    def count_incoming(self, queued: QueuedPodInfo, part: str, event: str) -> None:
        """Count an entry added to a part of the queue, and its pods."""
        self._incoming.with_labels(part, event).increment(len(queued.pods))
        self._incoming_entities.with_labels(part, event, queued.entity_type).increment()

    def observe_algorithm(self, seconds: float) -> None:
        """Observe the duration of a scheduling decision."""
        self.busy_seconds += seconds
        self._decisions.observe(seconds)

    def count_failed_attempt(self, profile: str, refusal: Status, seconds: float) -> None:
        """Count an attempt that ended unschedulable or with an error."""
        result = "unschedulable" if refusal.is_rejected else "error"
        if result == "error":
            self.errors += 1
            self.last_error = refusal.message
        self._attempt(result, profile, seconds)

    def count_background_error(self) -> None:
        """Count an error of work in the background."""
        self.errors += 1

    def observe_scheduled_pod(self, profile: str, queued: QueuedPodInfo, now: float) -> None:
        """Count an attempt that bound its pod, and observe its times and number of attempts."""
        self.bound += 1
        self._attempt("scheduled", profile, now - queued.attempt_started_at)
        self._tries.observe(float(queued.attempts))
        self._flushed.increment(queued.was_flushed_from_unschedulable)
        many = f"{_MANY_ATTEMPTS}+" if queued.attempts >= _MANY_ATTEMPTS else str(queued.attempts)
        self._waits.with_labels(many).observe(now - (queued.initial_attempt_timestamp or 0.0))

    def observe_permit_wait(self, result: str, seconds: float) -> None:
        """Observe the time a pod waited for permits."""
        self._permits.with_labels(result).observe(seconds)

    def count_preemption_attempt(self) -> None:
        """Count a preemption attempt."""
        self._preemptions.increment()

    def observe_preemption_evaluation(self, is_nominated: bool, seconds: float) -> None:
        """Observe the search for victims: if it found a node."""
        self._evaluation_seconds.with_labels(_POD, "Success" if is_nominated else "Unschedulable").observe(seconds)

    def observe_victims(self, victims: int, budget_violations: int) -> None:
        """Observe the number of victims, and count the violations of disruption budgets."""
        self._victims.observe(float(victims))
        if budget_violations:
            self._budget_violations.with_labels(_POD).increment(budget_violations)

    def observe_eviction(self, result: str, seconds: float) -> None:
        """Count an execution of a preemption and observe its duration."""
        self._evictions.with_labels(result).increment()
        self._eviction_seconds.with_labels(result).observe(seconds)
        self._execution_seconds.with_labels(_POD, result).observe(seconds)

    def _attempt(self, result: str, profile: str, seconds: float) -> None:
        self.attempts += 1
        self._results.with_labels(result, profile).increment()
        self._durations.with_labels(result, profile).observe(seconds)


class EventHandlingTimer:
    """Context manager that measures event handling; cheap, as it runs a thousand times a second."""

    __slots__ = ("_began", "_clock", "_event", "_instruments")

    def __init__(self, clock: Clock, instruments: SchedulerMetrics, event: str) -> None:
        self._clock = clock
        self._instruments = instruments
        self._event = event

    def __enter__(self) -> None:
        self._began = self._clock.monotonic()

    def __exit__(self, *_: object) -> None:
        self._instruments.observe_event_handling(self._event, self._clock.monotonic() - self._began)
