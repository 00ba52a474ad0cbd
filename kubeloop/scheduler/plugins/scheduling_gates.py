"""SchedulingGates: keeps a pod out of the active queue until its last scheduling gate is removed."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.plugin import Interest, Plugin, unresolvable
from kubeloop.scheduler.framework.status import Refusal
from kubeloop.scheduler.queue.cluster_event import TARGET_POD, Action


class SchedulingGates(Plugin):
    """Gates pods with scheduling gates."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Refusal | None:
        """Return a status that names the gates; None without any."""
        gates = [gate.name for gate in pod.pod.spec.scheduling_gates]
        return unresolvable(self.name, f"waiting for scheduling gates: [{' '.join(gates)}]") if gates else None

    def interests(self) -> Sequence[Interest]:
        """Return the removal of the gates."""
        return (Interest(TARGET_POD, Action.POD_GATES_GONE),)
