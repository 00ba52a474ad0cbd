"""Scores brought to 0 … 100, as most plugins do it. Integers divide as Go's do: nothing here is negative."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubeloop.scheduler.framework.plugin import MAX_SCORE


def spread_out(scores: NDArray[np.int64], *, reverse: bool = False) -> NDArray[np.int64]:
    """The largest becomes 100, the others in proportion; in reverse the smallest is liked best."""
    most = int(scores.max(initial=0))
    if most == 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    scaled = scores * MAX_SCORE // most
    return MAX_SCORE - scaled if reverse else scaled
