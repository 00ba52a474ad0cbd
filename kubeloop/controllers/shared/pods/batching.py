"""Computes the delay over which a controller batches changes of a large group of pods. Pure.

A sync costs time for each pod of the group. With one sync per change, a thousand pods that become ready would cost
a million steps; so the larger the group, the longer the batch.
"""

from __future__ import annotations

from typing import Final

PACE: Final = 20e-6  # seconds of delay per pod: several times the cost of evaluating one
SHORTEST_WAIT: Final = 0.001  # shorter delays save nothing


def patience(pods: int) -> float:
    """Return the seconds to wait before a sync of this many pods; 0 for no delay."""
    wait = pods * PACE
    return wait if wait >= SHORTEST_WAIT else 0.0
