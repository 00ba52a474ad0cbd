# SPDX-License-Identifier: Apache-2.0
"""Scheduling algorithm on the node cache; created, with its arrays, when the first node appears."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Node
from kubeloop.scheduler.cache.assumed_pods import AssumedPods, AssumptionListener
from kubeloop.scheduler.cache.cluster import ClusterState
from kubeloop.scheduler.cache.pod_info import PodInfo, SignatureCache
from kubeloop.scheduler.cycle.scheduling_cycle import SchedulingCycle
from kubeloop.scheduler.extenders.extender import ExtenderResults
from kubeloop.scheduler.framework.placement import Placement
from kubeloop.scheduler.framework.plugin import PermitWait, wrap_plugin_error
from kubeloop.scheduler.framework.profile import Profile
from kubeloop.scheduler.framework.status import Code, Diagnosis, Status


class SchedulingAlgorithm:
    """Schedules pods in memory: filter and score, PostFilter, Reserve and Permit."""

    def __init__(self, templates: SignatureCache, listener: AssumptionListener | None = None) -> None:
        self.cluster = ClusterState()
        self.assumed_pods = AssumedPods(self.cluster, templates, listener)

    def sizes(self) -> dict[str, int]:
        """Return the number of cached nodes, pods and assumed pods."""
        return {
            "nodes": len(self.cluster),
            "pods": len(self.assumed_pods),
            "assumed_pods": self.assumed_pods.assumed_count,
        }

    def find_nodes_that_fit(
        self, profile: Profile, pod: PodInfo, placement: Placement | None = None
    ) -> dict[str, Node]:
        """Return all nodes, of a placement if there is one, that pass the plugins' filters."""
        return SchedulingCycle(profile, self.cluster, pod, placement=placement).find_nodes_that_fit()

    def schedule_pod(
        self,
        profile: Profile,
        pod: PodInfo,
        opinions: ExtenderResults | None = None,
        placement: Placement | None = None,
    ) -> tuple[SchedulingCycle, Diagnosis | None]:
        """Run a scheduling cycle; return it with None if a node was selected, else with the diagnosis."""
        cycle = SchedulingCycle(profile, self.cluster, pod, opinions, placement)
        return cycle, None if cycle.select_node() else cycle.diagnose()

    def run_post_filter_plugins(self, cycle: SchedulingCycle, diagnosis: Diagnosis) -> str | None:
        """Run the PostFilter plugins until one nominates a node.

        Returns the nominated node, "" for none; None leaves the previous nomination unchanged.
        """
        profile = cycle.profile
        if not profile.post_filter_plugins:
            return ""
        told: list[str] = []
        node: str | None = None
        cycle.stopwatch.skip()
        for plugin in profile.post_filter_plugins:
            found = plugin.post_filter(cycle, diagnosis)
            if found is None:
                continue
            if isinstance(found, Status):
                told += found.reasons
                if found.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:  # no other plugin can help
                    break
                continue
            if found.message:
                told.append(found.message)
            if found.nominated_node_name is not None:
                node = found.nominated_node_name
            if found.nominated_node_name:
                break
        cycle.stopwatch.lap("PostFilter")
        diagnosis.set_post_filter_message(", ".join(told))
        return node

    def reserve(self, cycle: SchedulingCycle) -> Status | dict[str, float]:
        """Assume the pod on its node and run Reserve and Permit.

        Returns a rejection, or the timeouts in seconds of the plugins whose permit must be waited for.
        """
        refusal = self.assume_and_reserve(cycle)
        if refusal is not None:
            return refusal
        waits: dict[str, float] = {}
        for plugin in cycle.profile.permit_plugins:
            permit = plugin.permit(cycle, cycle.node)
            if isinstance(permit, PermitWait):
                waits[plugin.name] = permit.timeout_seconds
            elif permit is not None:
                refusal = wrap_plugin_error("Permit", permit)
                break
        if cycle.profile.permit_plugins:
            cycle.stopwatch.lap("Permit")
        if refusal is not None:
            self.unreserve(cycle)
            return refusal
        return waits

    def assume_and_reserve(self, cycle: SchedulingCycle) -> Status | None:
        """Assume the pod on its node and run Reserve; after a rejection both are undone."""
        cycle.stopwatch.skip()
        self.assumed_pods.assume_pod(cycle.pod, cycle.node)
        refusal = self._reserve(cycle)
        cycle.stopwatch.lap("Reserve")
        if refusal is not None:
            self.unreserve(cycle)
        return refusal

    def _reserve(self, cycle: SchedulingCycle) -> Status | None:
        for plugin in cycle.profile.reserve_plugins:
            refusal = plugin.reserve(cycle, cycle.node)
            if refusal is not None:
                return wrap_plugin_error("Reserve", refusal)
        return None

    def unreserve(self, cycle: SchedulingCycle) -> None:
        """Run Unreserve and forget the assumed pod."""
        for plugin in reversed(cycle.profile.reserve_plugins):
            plugin.unreserve(cycle, cycle.node)
        self.assumed_pods.forget_pod(cycle.pod.uid)
