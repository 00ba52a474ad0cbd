# SPDX-License-Identifier: Apache-2.0
"""PrioritySort: orders the queue by priority, then by time of queueing."""

from __future__ import annotations

from typing import Any

from kubeloop.scheduler.framework.plugin import Plugin
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo


class PrioritySort(Plugin):
    """Order of the scheduling queue."""

    name = "PrioritySort"

    def sort_key(self, queued: QueuedPodInfo) -> Any:
        """Return the negative priority and the timestamp."""
        return -queued.priority, queued.timestamp
