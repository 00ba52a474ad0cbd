"""SchedulingGates: a pod with gates is not tried before the last of them is gone."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.scheduler.changes import TARGET_POD, Action
from kubeloop.scheduler.framework import Interest, Plugin, unresolvable
from kubeloop.scheduler.outcome import Refusal
from kubeloop.scheduler.pod_info import PodInfo


class SchedulingGates(Plugin):
    """Holds gated pods back."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Refusal | None:
        gates = [gate.name for gate in pod.pod.spec.scheduling_gates]
        return unresolvable(self.name, f"waiting for scheduling gates: [{' '.join(gates)}]") if gates else None

    def interests(self) -> Sequence[Interest]:
        return (Interest(TARGET_POD, Action.POD_GATES_GONE),)
