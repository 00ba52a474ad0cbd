# SPDX-License-Identifier: Apache-2.0
"""Work queue of the controllers that write EndpointSlices: late retries, and a limited rate of all retries."""

from __future__ import annotations

from kubeloop.clock import Clock
from kubeloop.metrics.registry import MetricRegistry
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.rate_limiters import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    MaxOfRateLimiter,
)
from kubeloop.runtime.queue.workqueue import WorkQueue

FIRST_RETRY = 1.0  # seconds; a failed sync may have cost many writes


def new_sync_queue(name: str, last_retry: float, clock: Clock, registry: MetricRegistry) -> WorkQueue[ObjectKey]:
    """Return a work queue whose retries begin after a second and come at most `last_retry` seconds apart."""
    failures = ItemExponentialFailureRateLimiter[ObjectKey](FIRST_RETRY, last_retry)
    limiter = MaxOfRateLimiter[ObjectKey](failures, BucketRateLimiter(clock))
    return WorkQueue(clock, name=name, limiter=limiter, registry=registry)
