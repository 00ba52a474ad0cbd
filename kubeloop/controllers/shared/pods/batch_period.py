# SPDX-License-Identifier: Apache-2.0
"""Computes the delay over which a controller batches changes of a large group of pods. Pure.

A sync costs time for each pod of the group. With one sync per change, a thousand pods that become ready would cost
a million steps; so the larger the group, the longer the batch.
"""

from __future__ import annotations

from typing import Final

SECONDS_PER_POD: Final = 20e-6  # seconds of delay per pod: several times the cost of evaluating one
MIN_BATCH_PERIOD: Final = 0.001  # shorter delays save nothing


def batch_period(pods: int) -> float:
    """Return the seconds to wait before a sync of this many pods; 0 for no delay."""
    wait = pods * SECONDS_PER_POD
    return wait if wait >= MIN_BATCH_PERIOD else 0.0
