# SPDX-License-Identifier: Apache-2.0
"""SchedulingGates: keeps a pod out of the active queue until its last scheduling gate is removed."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.plugin import ClusterEventWithHint, Plugin, unresolvable_status
from kubeloop.scheduler.framework.status import Status
from kubeloop.scheduler.queue.cluster_event import TARGET_POD, ActionType


class SchedulingGates(Plugin):
    """Gates pods with scheduling gates."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Return a status that names the gates; None without any."""
        gates = [gate.name for gate in pod.pod.spec.scheduling_gates]
        return unresolvable_status(self.name, f"waiting for scheduling gates: [{' '.join(gates)}]") if gates else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the removal of the gates."""
        return (ClusterEventWithHint(TARGET_POD, ActionType.POD_SCHEDULING_GATES_ELIMINATED),)
