# SPDX-License-Identifier: Apache-2.0
"""Entry of the scheduling queue: a pod and the record of its attempts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.cache.pod_info import PodInfo


class QueuedPodInfo:
    """Pod in the scheduling queue."""

    is_group: ClassVar[bool] = False
    entity_type: ClassVar[str] = "pod"  # as metrics name it

    __slots__ = (
        "activate_requested",
        "attempt_started_at",
        "attempts",
        "backoff_expiration",
        "consecutive_errors_count",
        "flushed_at",
        "gating_plugin",
        "heap_entry_id",
        "info",
        "initial_attempt_timestamp",
        "pending_plugins",
        "queue_name",
        "timestamp",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed_from_unschedulable",
    )  # fmt: skip

    def __init__(self, info: PodInfo, now: float) -> None:
        self.info = info
        self.timestamp = now  # when it was added to the queue, or returned to it
        self.initial_attempt_timestamp: float | None = None  # when it first passed all PreEnqueue plugins
        self.attempt_started_at = now  # start of the last attempt
        self.attempts = 0
        self.unschedulable_count = 0  # attempts that ended unschedulable
        self.consecutive_errors_count = 0  # consecutive attempts that ended with an error
        self.backoff_expiration: float | None = None
        self.unschedulable_plugins: frozenset[str] = frozenset()  # plugins that rejected it in the last attempt
        self.pending_plugins: frozenset[str] = frozenset()  # plugins that will activate it by an event
        self.gating_plugin = ""  # the PreEnqueue plugin that gates it
        self.queue_name = ""  # the sub-queue that holds it
        self.heap_entry_id = -1  # id of its current heap entry
        self.was_flushed_from_unschedulable = (
            False  # the attempt follows from the unschedulable timeout, not from an event
        )
        self.flushed_at = now  # when it was last moved by the unschedulable timeout
        self.activate_requested = False  # activation was requested during the attempt

    @property
    def key(self) -> ObjectKey:
        """Key of the pod."""
        return self.info.key

    @property
    def pods(self) -> Sequence[QueuedPodInfo]:
        """Pods of this entry: the pod itself."""
        return (self,)

    @property
    def priority(self) -> int:
        """Priority by which the queue is ordered."""
        return self.info.priority

    # Changes by the queue.

    def update(self, info: PodInfo) -> None:
        """Replace the pod by a newer version."""
        self.info = info

    def enter_queue(self, name: str, heap_entry_id: int = -1) -> None:
        """Record the sub-queue that holds the pod, and its heap entry."""
        self.queue_name = name
        self.heap_entry_id = heap_entry_id

    def leave_queue(self) -> None:
        """Record that no sub-queue holds the pod."""
        self.queue_name = ""

    def set_admitted(self, now: float) -> None:
        """Record when the pod first passed all PreEnqueue plugins."""
        self.initial_attempt_timestamp = now

    def set_gate(self, plugin: str) -> None:
        """Record the PreEnqueue plugin that gates the pod; "" for none."""
        self.gating_plugin = plugin
        if plugin:
            self.unschedulable_plugins |= {plugin}

    def set_backoff_expiration(self, at: float) -> float:
        """Set the end of the backoff and return it."""
        self.backoff_expiration = at
        return at

    def set_flushed(self, now: float) -> None:
        """Record that the unschedulable timeout moves the pod."""
        self.was_flushed_from_unschedulable = True
        self.flushed_at = now

    def clear_flushed(self) -> None:
        """Record that the next attempt does not follow from the unschedulable timeout."""
        self.was_flushed_from_unschedulable = False

    # Changes by attempts.

    def start_attempt(self, now: float) -> None:
        """Record the start of an attempt."""
        self.attempts += 1
        self.activate_requested = False
        self.attempt_started_at = now

    def request_activation(self) -> None:
        """Record that activation was requested during the attempt."""
        self.activate_requested = True

    def set_rejectors(self, unschedulable: Iterable[str], pending: Iterable[str]) -> None:
        """Record the plugins that rejected the pod, and those that will activate it by an event."""
        self.unschedulable_plugins = frozenset(unschedulable)
        self.pending_plugins = frozenset(pending)

    def end_attempt(self, now: float, *, error: bool) -> None:
        """Record the end of an attempt that failed with an error, or else was rejected."""
        self.timestamp = now
        self.backoff_expiration = None
        self.was_flushed_from_unschedulable = False
        if error:
            self.consecutive_errors_count += 1
        else:
            self.unschedulable_count += 1
            self.consecutive_errors_count = 0

    @property
    def rejector_plugins(self) -> frozenset[str]:
        """Plugins that rejected the pod, including pending ones."""
        return self.unschedulable_plugins | self.pending_plugins
