# SPDX-License-Identifier: Apache-2.0
"""Work queue of the agent's loops: retries within half a minute, since a node without a network runs nothing."""

from __future__ import annotations

from typing import Final

from kubeloop.clock import Clock
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.rate_limiters import ItemExponentialFailureRateLimiter
from kubeloop.runtime.queue.workqueue import WorkQueue

_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 30.0


def new_queue(name: str, clock: Clock, telemetry: Telemetry) -> WorkQueue[ObjectKey]:
    """Return the queue of a loop."""
    limiter: ItemExponentialFailureRateLimiter[ObjectKey] = ItemExponentialFailureRateLimiter(
        _FIRST_DELAY, _LONGEST_DELAY
    )
    return WorkQueue(clock, name=name, limiter=limiter, registry=telemetry.registry)
