# SPDX-License-Identifier: Apache-2.0
"""Pods assumed within the cycle of a pod group: undone in reverse order before anything is decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubeloop.scheduler.framework.status import Status
from kubeloop.scheduler.queue.nominator import Nominator

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle.algorithm import SchedulingAlgorithm
    from kubeloop.scheduler.cycle.scheduling_cycle import SchedulingCycle


class Simulation:
    """Stack of assumed pods; their resources are reserved, and their nominations removed, until they are undone."""

    def __init__(self, algorithm: SchedulingAlgorithm, nominator: Nominator) -> None:
        self._algorithm = algorithm
        self._nominator = nominator
        self._assumed: list[tuple[SchedulingCycle, str]] = []  # with the nominated node

    @property
    def position(self) -> int:
        """Number of assumed pods, to which `revert_to` can return."""
        return len(self._assumed)

    def assume(self, cycle: SchedulingCycle) -> Status | None:
        """Assume and reserve the pod of a cycle on its node; return the rejection of a Reserve plugin."""
        cycle.set_tentative(True)
        refusal = self._algorithm.assume_and_reserve(cycle)
        if refusal is None:
            uid = cycle.pod.uid
            self._assumed.append((cycle, self._nominator.nominated_node(uid)))
            self._nominator.delete_nominated_pod(uid)
        return refusal

    def revert_to(self, position: int) -> None:
        """Undo all that was assumed after a position."""
        while len(self._assumed) > position:
            cycle, nominated = self._assumed.pop()
            self._algorithm.unreserve(cycle)
            if nominated:
                self._nominator.add_nominated_pod(cycle.pod, nominated)
