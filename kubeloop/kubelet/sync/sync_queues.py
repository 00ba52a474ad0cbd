# SPDX-License-Identifier: Apache-2.0
"""Queues of the pods and nodes to be synced.

They are created before everything else, so that each part gets the queue that it adds to by its constructor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kubeloop.clock import Clock
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.workqueue import WorkQueue

EnqueuePod = Callable[[ObjectKey], None]


class SyncQueues(NamedTuple):
    """Queues of an agent's pod and node controllers."""

    pods: WorkQueue[ObjectKey]
    nodes: WorkQueue[ObjectKey]


def new_sync_queues(clock: Clock, registry: MetricRegistry) -> SyncQueues:
    """Return empty queues, whose metrics are in a registry."""
    return SyncQueues(
        WorkQueue(clock, name="kubelet_pods", registry=registry),
        WorkQueue(clock, name="kubelet_nodes", registry=registry),
    )
