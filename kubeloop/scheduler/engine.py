"""What works on nodes: made, with the arrays it needs, when the first node comes."""

from __future__ import annotations

from kubeloop.scheduler.cluster import ClusterState
from kubeloop.scheduler.cycle import Cycle
from kubeloop.scheduler.framework import Wait
from kubeloop.scheduler.outcome import Diagnosis, Refusal
from kubeloop.scheduler.placements import Placements
from kubeloop.scheduler.pod_info import PodInfo, Templates
from kubeloop.scheduler.profile import Profile


class Engine:
    """Decides, in memory alone."""

    def __init__(self, templates: Templates) -> None:
        self.cluster = ClusterState()
        self.placements = Placements(self.cluster, templates)

    def decide(self, profile: Profile, pod: PodInfo) -> tuple[Cycle, Diagnosis | None, str | None]:
        """An attempt: with a node if it succeeded, else why not and which node the pod waits for from now on."""
        cycle = Cycle(profile, self.cluster, pod)
        cycle.node = cycle.choose()
        if cycle.node:
            return cycle, None, None
        diagnosis = cycle.diagnose()
        return cycle, diagnosis, self._make_room(profile, cycle, diagnosis)

    def _make_room(self, profile: Profile, cycle: Cycle, diagnosis: Diagnosis) -> str | None:
        """Ask those who may make room, until one has found some; None leaves what was nominated."""
        if not profile.post_filters:
            return ""
        told: list[str] = []
        node: str | None = None
        for plugin in profile.post_filters:
            found = plugin.post_filter(cycle, diagnosis)
            if found is None:
                continue
            if isinstance(found, Refusal):
                told += found.reasons
                continue
            if found.message:
                told.append(found.message)
            if found.node is not None:
                node = found.node
            if found.node:
                break
        diagnosis.after = ", ".join(told)
        return node

    def reserve(self, cycle: Cycle) -> Refusal | float:
        """Take the node for the pod. Why not, or for how many seconds at most a permit is to be waited for."""
        self.placements.assume(cycle.pod, cycle.node)
        refusal = self._reserve(cycle)
        waits = 0.0
        for plugin in cycle.profile.permitters if refusal is None else ():
            permit = plugin.permit(cycle, cycle.node)
            if isinstance(permit, Wait):
                waits = max(waits, permit.seconds)
            elif permit is not None:
                refusal = permit
                break
        if refusal is not None:
            self.release(cycle)
            return refusal
        return waits

    def _reserve(self, cycle: Cycle) -> Refusal | None:
        for plugin in cycle.profile.reservers:
            refusal = plugin.reserve(cycle, cycle.node)
            if refusal is not None:
                return refusal
        return None

    def release(self, cycle: Cycle) -> None:
        """Give everything back."""
        for plugin in reversed(cycle.profile.reservers):
            plugin.unreserve(cycle, cycle.node)
        self.placements.forget(cycle.pod.uid)
