# SPDX-License-Identifier: Apache-2.0
"""Normalization of scores to 0…100, as most plugins do it.

Integer division truncates as in Go; no value here is negative.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubeloop.scheduler.framework.plugin import MAX_SCORE


def default_normalize_score(scores: NDArray[np.int64], *, reverse: bool = False) -> NDArray[np.int64]:
    """Scale scores so that the largest becomes 100; with `reverse`, subtract them from 100."""
    most = int(scores.max(initial=0))
    if most == 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    scaled = scores * MAX_SCORE // most
    return MAX_SCORE - scaled if reverse else scaled
