"""What is counted of a scheduler, under upstream's names where they mean the same."""

from __future__ import annotations

from kubeloop.runtime.metrics import Registry
from kubeloop.scheduler.outcome import Refusal
from kubeloop.scheduler.queue import SchedulingQueue


class Instruments:
    """Plain numbers, read by the registry when somebody asks."""

    def __init__(self, registry: Registry, queue: SchedulingQueue) -> None:
        self.attempts = 0
        self.bound = 0
        self.errors = 0
        self.busy_seconds = 0.0
        self.last_error = ""
        self._results = registry.counter(
            "scheduler_schedule_attempts_total", "Attempts to schedule pods, by what came of it.", "result", "profile"
        )
        pending = registry.gauge("scheduler_pending_pods", "Pods that wait, by part of the queue.", "queue")
        for part in ("active", "backoff", "unschedulable", "gated"):
            pending.read(lambda part=part: float(queue.sizes()[part]), part)  # type: ignore[misc]

    def attempt(self, profile: str, refusal: Refusal | None, seconds: float) -> None:
        self.attempts += 1
        self.busy_seconds += seconds
        result = "scheduled" if refusal is None else "unschedulable" if refusal.is_rejection else "error"
        if result == "error" and refusal is not None:
            self.errors += 1
            self.last_error = refusal.message
        self._results.of(result, profile).value += 1
