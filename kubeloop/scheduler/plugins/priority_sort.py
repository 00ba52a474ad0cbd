"""PrioritySort: pods of higher priority first, among equals who has waited longest."""

from __future__ import annotations

from typing import Any

from kubeloop.scheduler.framework.plugin import Plugin
from kubeloop.scheduler.queue.queued_pod_info import QueuedPod


class PrioritySort(Plugin):
    """The order of the queue."""

    name = "PrioritySort"

    def sort_key(self, queued: QueuedPod) -> Any:
        return -queued.info.priority, queued.added_at
