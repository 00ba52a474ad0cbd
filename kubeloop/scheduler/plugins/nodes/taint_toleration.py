# SPDX-License-Identifier: Apache-2.0
"""TaintToleration: rejects nodes with untolerated taints; prefers fewer untolerated PreferNoSchedule taints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.generated.core_v1 import Taint, Toleration
from kubeloop.api.pods.placement import first_untolerated, tolerates
from kubeloop.scheduler.cache.cluster import ClusterState, Rows
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.cache.taint_sets import HARD_TAINT_EFFECTS, TaintFunction, untolerated_taint_function
from kubeloop.scheduler.framework.normalize import default_normalize_score
from kubeloop.scheduler.framework.plugin import SKIP, ClusterEventWithHint, Plugin, Skip, unresolvable_status
from kubeloop.scheduler.queue.cluster_event import NODE, TARGET_POD, ActionType

_SOFT = "PreferNoSchedule"


class TaintToleration(Plugin):
    """Filters and scores nodes by their taints."""

    name = "TaintToleration"
    depends_on_pods = False
    filter_statuses = (unresolvable_status(name, "node(s) had untolerated taint(s)"),)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events of nodes and of the pod that may help."""
        return (
            ClusterEventWithHint(NODE, ActionType.ADD | ActionType.NODE_TAINT, _is_schedulable_after_node_change),
            ClusterEventWithHint(TARGET_POD, ActionType.POD_TOLERATION),
        )

    def pre_filter(self, pod: PodInfo, cluster: ClusterState) -> TaintFunction:
        """Return the test for untolerated taints."""
        return untolerated_taint_function(pod.pod.spec.tolerations)

    def filter(self, state: TaintFunction, cluster: ClusterState, rows: Rows) -> NDArray[np.int16]:
        """Return 1 for nodes with an untolerated NoSchedule or NoExecute taint."""
        return state.evaluate(cluster, rows).astype(np.int16)

    def state_version(self, cluster: ClusterState) -> int:
        """Return the number of known sets of taints."""
        return len(cluster.taint_sets)

    def pre_score(self, pod: PodInfo, cluster: ClusterState) -> TaintFunction | Skip:
        """Return the count of untolerated PreferNoSchedule taints; SKIP if no node has any."""
        if not any(taint.effect == _SOFT for taints in cluster.taint_sets for taint in taints):
            return SKIP
        soft = [one for one in pod.pod.spec.tolerations if one.effect in ("", _SOFT)]
        return TaintFunction(lambda taints: count_intolerable_taints_prefer_no_schedule(taints, soft))

    def score(self, state: TaintFunction, cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        """Return the count by node."""
        return state.evaluate(cluster, rows)

    def normalize_score(
        self, state: Any, scores: NDArray[np.int64], cluster: ClusterState, rows: Rows
    ) -> NDArray[np.int64]:
        """Scale the counts to 0…100, fewer being better."""
        return default_normalize_score(scores, reverse=True)


def count_intolerable_taints_prefer_no_schedule(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> int:
    """Return the number of PreferNoSchedule taints that are not tolerated."""
    return sum(taint.effect == _SOFT and not any(tolerates(one, taint) for one in tolerations) for taint in taints)


def _is_schedulable_after_node_change(pod: PodInfo, old: Any, new: Any) -> bool:
    tolerations = pod.pod.spec.tolerations
    if first_untolerated(new.spec.taints, tolerations, HARD_TAINT_EFFECTS) is not None:
        return False
    return old is None or first_untolerated(old.spec.taints, tolerations, HARD_TAINT_EFFECTS) is not None
