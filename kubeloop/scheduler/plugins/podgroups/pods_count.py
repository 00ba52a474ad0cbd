# SPDX-License-Identifier: Apache-2.0
"""PodGroupPodsCount: prefers placements on which more pods of a group fit."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.scheduler.framework.plugin import MAX_SCORE, Plugin
from kubeloop.scheduler.framework.status import SchedulingError
from kubeloop.scheduler.podgroups.pod_group_info import PodGroupInfo


class PodGroupPodsCount(Plugin):
    """Scores placements by the number of pods, scheduled and proposed."""

    name = "PodGroupPodsCount"

    def score_placement(self, group: PodGroupInfo, placed: int) -> int:
        """Return the number of pods that would have a node."""
        manager = self.handle.pod_groups
        return placed + sum(manager.state(leaf.key).scheduled_count for leaf in group.leaves())

    def normalize_placement_score(self, group: PodGroupInfo, scores: Sequence[int]) -> Sequence[int]:
        """Scale by the highest number."""
        most = max(scores)
        if not most:
            raise SchedulingError("no pods from pod group are assigned to any of the candidate placements")
        return [score * MAX_SCORE // most for score in scores]
