"""Scheduler metrics, under upstream's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kubeloop.clock import Clock
from kubeloop.runtime.metrics import Histogram, MetricRegistry
from kubeloop.scheduler.framework.status import Status
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo
from kubeloop.scheduler.queue.scheduling_queue import SchedulingQueue

_SHORT: Final = tuple(0.001 * 2**power for power in range(15))
_TINY: Final = tuple(0.00001 * 1.5**power for power in range(20))
_BRIEF: Final = tuple(0.0001 * 2**power for power in range(12))
_LONG: Final = tuple(0.01 * 2**power for power in range(20))
_FEW: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
_VICTIMS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_MANY_ATTEMPTS: Final = 15


class SchedulerMetrics:
    """Counters and histograms of a scheduler, read by the metrics registry on scrape."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.attempts = 0
        self.bound = 0
        self.errors = 0
        self.busy_seconds = 0.0
        self.last_error = ""
        self._registry = registry
        self._results = registry.counter(
            "scheduler_schedule_attempts_total", "Attempts to schedule pods, by what came of it.", "result", "profile"
        )
        self._durations = registry.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "How long attempts took, with binding, by what came of it.", "result", "profile", bounds=_SHORT,
        )  # fmt: skip
        self._decisions = registry.histogram(
            "scheduler_scheduling_algorithm_duration_seconds", "How long decisions took.", bounds=_SHORT
        ).of()
        self._waits = registry.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "How long pods were in the queue until they had a node, by number of attempts.", "attempts", bounds=_LONG,
        )  # fmt: skip
        self._tries = registry.histogram(
            "scheduler_pod_scheduling_attempts", "Attempts that pods took until they had a node.", bounds=_FEW
        ).of()
        self._incoming = registry.counter(
            "scheduler_queue_incoming_pods_total", "Pods that came to a part of the queue, by why.", "queue", "event"
        )
        self._points = registry.histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "How long extension points took.", "extension_point", "status", "profile", bounds=_BRIEF,
        )  # fmt: skip
        self._successes: dict[tuple[str, str], Histogram] = {}  # of extension points, by name and profile
        self._events = registry.histogram(
            "scheduler_event_handling_duration_seconds", "How long changes took to be heeded.", "event", bounds=_BRIEF
        )
        self._flushed = registry.counter(
            "scheduler_pod_scheduled_after_flush_total", "Pods that got a node when they were tried for no reason."
        ).of()
        self._hints = registry.histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "How long plugins took to tell whether a change may help a pod.", "plugin", "event", "hint", bounds=_TINY,
        )  # fmt: skip
        self._permits = registry.histogram(
            "scheduler_permit_wait_duration_seconds", "How long pods waited for permits.", "result", bounds=_SHORT
        )
        self._preemptions = registry.counter(
            "scheduler_preemption_attempts_total", "Attempts to make room for a pod."
        ).of()
        self._evictions = registry.counter(
            "scheduler_preemption_goroutines_execution_total", "Times that pods were ended for another.", "result"
        )
        self._eviction_seconds = registry.histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "How long it took to end pods for another.", "result", bounds=_LONG,
        )  # fmt: skip
        self._victims = registry.histogram(
            "scheduler_preemption_victims", "Pods that ended for another.", bounds=_VICTIMS
        ).of()

    def watch_queue(self, queue: SchedulingQueue) -> None:
        """Register gauges of the queue: pending pods by part, and unschedulable pods by plugin and profile."""
        pending = self._registry.gauge("scheduler_pending_pods", "Pods that wait, by part of the queue.", "queue")
        entities = self._registry.gauge(
            "scheduler_queued_entities", "What waits, by part of the queue and kind.", "queue", "type"
        )
        for part in ("active", "backoff", "unschedulable", "gated"):
            pending.read(lambda part=part: float(queue.sizes()[part]), part)  # type: ignore[misc]
            entities.read(lambda part=part: float(queue.sizes()[part]), part, "pod")  # type: ignore[misc]
        refused = self._registry.gauge(
            "scheduler_unschedulable_pods", "Pods that a plugin has refused.", "plugin", "profile"
        )
        refused.collect(queue.refused)
        in_flight = self._registry.gauge(
            "scheduler_inflight_events", "Changes that are remembered for pods that are being tried.", "event"
        )
        in_flight.collect(queue.in_flight)

    def watch_bindings(self, count: Callable[[], float]) -> None:
        """Register a gauge of the number of binding cycles under way."""
        tasks = self._registry.gauge("scheduler_goroutines", "Pods that are being bound.", "operation")
        tasks.read(count, "binding")

    def watch_cache(self, sizes: Mapping[str, Callable[[], float]]) -> None:
        """Register gauges of the cache; `sizes` maps what is counted to a function."""
        gauge = self._registry.gauge("scheduler_cache_size", "Nodes, pods and assumed pods that are known.", "type")
        for name, size in sizes.items():
            gauge.read(size, name)

    def attempted(self, profile: str, spent: Mapping[str, float], is_refused: bool) -> None:
        """Observe the time an attempt spent at each extension point, in order.

        With `is_refused`, the last of the extension points rejected the pod.
        """
        last = next(reversed(list(spent)), "") if is_refused else ""
        for point, seconds in spent.items():
            if point == last:
                self._points.of(point, "Unschedulable", profile).observe(seconds)
                continue
            key = point, profile
            known = self._successes.get(key)
            if known is None:
                known = self._successes[key] = self._points.of(point, "Success", profile)
            known.observe(seconds)

    def passed(self, point: str, status: str, profile: str, seconds: float) -> None:
        """Observe the duration and status of one extension point."""
        self._points.of(point, status, profile).observe(seconds)

    def handled(self, event: str, seconds: float) -> None:
        """Observe the duration of handling an event."""
        self._events.of(event).observe(seconds)

    def asked(self, plugin: str, event: str, result: str, seconds: float) -> None:
        """Observe the result and duration of a queueing hint."""
        self._hints.of(plugin, event, result).observe(seconds)

    def came(self, part: str, event: str) -> None:
        """Count a pod added to a part of the queue."""
        self._incoming.of(part, event).value += 1

    def decided(self, seconds: float) -> None:
        """Observe the duration of a scheduling decision."""
        self.busy_seconds += seconds
        self._decisions.observe(seconds)

    def refused(self, profile: str, refusal: Status, seconds: float) -> None:
        """Count an attempt that ended unschedulable or with an error."""
        result = "unschedulable" if refusal.is_rejection else "error"
        if result == "error":
            self.errors += 1
            self.last_error = refusal.message
        self._attempt(result, profile, seconds)

    def scheduled(self, profile: str, queued: QueuedPodInfo, now: float) -> None:
        """Count an attempt that bound its pod, and observe its times and number of attempts."""
        self.bound += 1
        self._attempt("scheduled", profile, now - queued.tried_at)
        self._tries.observe(float(queued.attempts))
        self._flushed.value += queued.flushed
        many = f"{_MANY_ATTEMPTS}+" if queued.attempts >= _MANY_ATTEMPTS else str(queued.attempts)
        self._waits.of(many).observe(now - (queued.first_active_at or 0.0))

    def permitted(self, result: str, seconds: float) -> None:
        """Observe the time a pod waited for permits."""
        self._permits.of(result).observe(seconds)

    def preempted(self, victims: int | None) -> None:
        """Count a preemption attempt (None), or observe its number of victims."""
        if victims is None:
            self._preemptions.value += 1
        else:
            self._victims.observe(float(victims))

    def evicted(self, result: str, seconds: float) -> None:
        """Count an execution of a preemption and observe its duration."""
        self._evictions.of(result).value += 1
        self._eviction_seconds.of(result).observe(seconds)

    def _attempt(self, result: str, profile: str, seconds: float) -> None:
        self.attempts += 1
        self._results.of(result, profile).value += 1
        self._durations.of(result, profile).observe(seconds)


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
        self._instruments.handled(self._event, self._clock.monotonic() - self._began)
