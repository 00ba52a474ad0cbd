# SPDX-License-Identifier: Apache-2.0
"""Backoff before failed pods are replaced: ten seconds, doubled with each failure since a success. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.controllers.job.pods import all_index_failures, finish_time

INITIAL_BACKOFF = 10.0
MAX_BACKOFF = 600.0


@dataclass(frozen=True, slots=True)
class BackoffRecord:
    """Number of consecutive failures of a job's pods and the time of the last one."""

    count: int = 0
    last: datetime | None = None

    def with_finished(self, succeeded: Sequence[Pod], failed: Sequence[Pod]) -> BackoffRecord:
        """Return the failures including these ended pods; a success resets all failures before it."""
        if not succeeded and not failed:
            return self
        moments = sorted(map(finish_time, failed))
        if not succeeded:
            return BackoffRecord(self.count + len(moments), moments[-1])
        success = max(map(finish_time, succeeded))
        later = [moment for moment in moments if moment > success]
        return BackoffRecord(len(later), later[-1] if later else None)

    def seconds_left(self, now: datetime) -> float:
        """Return the seconds before a pod may be created again."""
        if self.count == 0 or self.last is None:
            return 0.0
        pause = min(INITIAL_BACKOFF * 2.0 ** min(self.count - 1, 32), MAX_BACKOFF)
        return max(0.0, pause - (now - self.last).total_seconds())


def index_seconds_left(last_failed: Pod | None, now: datetime) -> float:
    """Return the same for one index with its own limit, from the counts on its last failed pod."""
    if last_failed is None:
        return 0.0
    return BackoffRecord(all_index_failures(last_failed) + 1, finish_time(last_failed)).seconds_left(now)
