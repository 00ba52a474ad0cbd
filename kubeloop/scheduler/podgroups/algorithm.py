# SPDX-License-Identifier: Apache-2.0
"""Scheduling algorithm of pod groups: tries all pods of a group in memory, on each placement, and selects the best.

group ─ generate placements ─▶ for each: pods one after the other, each assumed for the next ─▶ undone
                                   └ a composite group: its children, in the same way
      ─ score those on which enough pods fit ─▶ the best, assumed for the groups that follow ─▶ undone at the end
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kubeloop.clock import Clock
from kubeloop.scheduler.cycle.failure_handler import diagnose_on_node
from kubeloop.scheduler.cycle.lazy_algorithm import LazyAlgorithm
from kubeloop.scheduler.framework.handle import SharedState
from kubeloop.scheduler.framework.placement import Placement, PlacementProgress
from kubeloop.scheduler.framework.plugin import PluginTimeLimitExceeded
from kubeloop.scheduler.framework.profile import Profile
from kubeloop.scheduler.framework.status import NO_NODES, Code, Status
from kubeloop.scheduler.podgroups.metrics import PodGroupMetrics
from kubeloop.scheduler.podgroups.pod_group_info import PodGroupInfo
from kubeloop.scheduler.podgroups.result import (
    PodGroupResult,
    PodGroupResults,
    PodResult,
    error_of,
    group_unschedulable,
    placed_pods,
)
from kubeloop.scheduler.podgroups.simulation import Simulation
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo

if TYPE_CHECKING:
    from kubeloop.scheduler.cache.cluster import ClusterState
    from kubeloop.scheduler.cycle.algorithm import SchedulingAlgorithm

_TOPOLOGY: Final = "TopologyAwareWorkloadScheduling"
_NOT_FOUND: Final = "no feasible placements found"


class PodGroupAlgorithm:
    """Runs the algorithm for topmost groups."""

    def __init__(self, algorithm: LazyAlgorithm, state: SharedState, metrics: PodGroupMetrics, clock: Clock) -> None:
        self._algorithm = algorithm
        self.state = state
        self.metrics = metrics
        self.clock = clock
        self.is_topology_aware = state.features.is_enabled(_TOPOLOGY)

    @property
    def cluster(self) -> ClusterState:
        """Cluster state, as the algorithm sees and changes it."""
        return self._algorithm.start().cluster

    def simulation(self) -> Simulation:
        """Return a new, empty simulation."""
        return Simulation(self._algorithm.start(), self.state.nominator)

    async def run(self, profile: Profile, root: PodGroupInfo) -> PodGroupResults:
        """Return the results of all evaluated groups at or below a topmost group; nothing stays assumed."""
        attempt = _Attempt(self, self._algorithm.start(), profile)
        found: PodGroupResults = {}
        try:
            result = await attempt.schedule(root, None, found)
        finally:
            attempt.simulation.revert_to(0)
        if result.status is None and not result.any_scheduled:
            result.set_status(group_unschedulable())
        return found


class _Attempt:
    """One run of the algorithm."""

    def __init__(self, settings: PodGroupAlgorithm, algorithm: SchedulingAlgorithm, profile: Profile) -> None:
        self._settings = settings
        self._algorithm = algorithm
        self._profile = profile
        self.simulation = Simulation(algorithm, settings.state.nominator)

    async def schedule(self, info: PodGroupInfo, parent: Placement | None, results: PodGroupResults) -> PodGroupResult:
        """Schedule a group on the nodes of a placement, all nodes if it is None; add the results."""
        if self._settings.is_topology_aware:
            result = await self._schedule_on_placements(info, parent, results)
        else:
            result = await self._schedule_members(info, None, results)
        results[info.key] = result
        return result

    # Placements.

    async def _schedule_on_placements(
        self, info: PodGroupInfo, parent: Placement | None, results: PodGroupResults
    ) -> PodGroupResult:
        placements = self._generate_placements(info, parent)
        if isinstance(placements, Status):
            return PodGroupResult(info, placements)
        tried: list[tuple[PodGroupResult, PodGroupResults]] = []
        for placement in placements:
            below: PodGroupResults = {}
            result = await self._evaluate(info, placement, below)
            if result.status is not None and not result.status.is_rejected:
                return result
            tried.append((result, below))
        fitting = [one for one in tried if one[0].status is None]
        if not fitting:
            first, below = tried[0]
            assert first.status is not None
            told = f"0/{len(tried)} placements are available, first placement status: {error_of(first.status)}"
            first.set_status(group_unschedulable(told))
            results.update(below)
            return first
        result, below = fitting[0] if len(fitting) == 1 else self._best(info, fitting)
        return self._accept(info, result, below, results)

    def _generate_placements(self, info: PodGroupInfo, parent: Placement | None) -> Sequence[Placement | None] | Status:
        plugins = self._profile.placement_generate_plugins
        found: Sequence[Placement | None] = (parent,)
        if plugins:
            cluster = self._algorithm.cluster
            whole = parent or Placement("", frozenset(one.metadata.name for one in cluster.nodes.values()))
            answer = plugins[0].generate_placements(info, whole, cluster)
            if isinstance(answer, Status):
                return answer
            found = [parent if one is whole else one for one in answer]
        if not found:
            return Status(Code.UNSCHEDULABLE, (_NOT_FOUND,), plugins[0].name)
        if not info.is_composite:
            self._settings.metrics.count_placements(self._profile.name, len(found))
        return found

    async def _evaluate(
        self, info: PodGroupInfo, placement: Placement | None, below: PodGroupResults
    ) -> PodGroupResult:
        began, position = self._settings.clock.monotonic(), self.simulation.position
        result = below[info.key] = await self._schedule_members(info, placement, below)
        self.simulation.revert_to(position)
        if not info.is_composite and (result.status is None or result.status.is_rejected):
            seconds = self._settings.clock.monotonic() - began
            self._settings.metrics.observe_placement(self._profile.name, result.status is None, seconds)
        return result

    def _best(
        self, info: PodGroupInfo, fitting: Sequence[tuple[PodGroupResult, PodGroupResults]]
    ) -> tuple[PodGroupResult, PodGroupResults]:
        """Return a random one of the placements with the highest score."""
        placed = [len(placed_pods(info, below)) for _, below in fitting]
        totals = [0] * len(fitting)
        for plugin, weight in self._profile.placement_score_plugins:
            scores = [plugin.score_placement(info, number) for number in placed]
            for index, score in enumerate(plugin.normalize_placement_score(info, scores)):
                totals[index] += weight * score
        best = [index for index, total in enumerate(totals) if total == max(totals)]
        return fitting[best[self._profile.random().randrange(len(best))]]

    def _accept(
        self, info: PodGroupInfo, result: PodGroupResult, below: PodGroupResults, results: PodGroupResults
    ) -> PodGroupResult:
        """Assume the pods of a result again, so that the groups that follow see them."""
        position = self.simulation.position
        for pod in placed_pods(info, below):
            refusal = None if pod.cycle is None else self.simulation.assume(pod.cycle)
            if refusal is not None:
                self.simulation.revert_to(position)
                return PodGroupResult(info, Status(Code.ERROR, (f"failed to assume the subtree: {refusal.message}",)))
        results.update(below)
        return result

    # Members of a group.

    async def _schedule_members(
        self, info: PodGroupInfo, placement: Placement | None, results: PodGroupResults
    ) -> PodGroupResult:
        """Schedule the pods or children of a group; after a failure nothing of them stays assumed."""
        position = self.simulation.position
        schedule = self._schedule_children if info.is_composite else self._schedule_pods
        result = await schedule(info, placement, results)
        if result.status is not None:
            self.simulation.revert_to(position)
            result.set_any_scheduled(False)
        return result

    async def _schedule_pods(
        self, info: PodGroupInfo, placement: Placement | None, _: PodGroupResults
    ) -> PodGroupResult:
        progress = PlacementProgress(self._settings.state.pod_groups.state(info.key).scheduled_count, len(info.pods))
        result = PodGroupResult(info, _wrap_error(self._check_feasible(info, progress)))
        if result.status is not None and result.status.code is not Code.WAIT:
            if result.status.is_rejected:
                result.set_status(group_unschedulable(*result.status.reasons))
            return result
        for queued in info.pods:
            pod = await self._schedule_pod(queued, placement)
            result.pods.append(pod)
            if pod.status is not None and not pod.status.is_rejected:
                told = f"failed to schedule other pod from a pod group: {pod.status.message}"
                result.set_status(Status(Code.ERROR, (told,)))
                break
            progress = PlacementProgress(progress.scheduled + (pod.status is None), progress.remaining - 1)
            result.set_status(_wrap_error(self._check_feasible(info, progress)))
            if result.status is not None and result.status.code is not Code.WAIT:
                break
            result.set_any_scheduled(result.any_scheduled or pod.status is None)
        return _end_wait(result)

    async def _schedule_children(
        self, info: PodGroupInfo, placement: Placement | None, results: PodGroupResults
    ) -> PodGroupResult:
        progress = PlacementProgress(0, len(info.children))
        result = PodGroupResult(info, self._check_feasible(info, progress))
        if result.status is not None and result.status.code is not Code.WAIT:
            return result
        for child in info.children:
            found = await self.schedule(child, placement, results)
            if found.status is not None and not found.status.is_rejected:
                told = f"composite pod group evaluation failed due to child error: {found.status.message}"
                return PodGroupResult(info, Status(Code.ERROR, (told,)))
            result.set_any_scheduled(result.any_scheduled or found.any_scheduled)
            progress = PlacementProgress(progress.scheduled + (found.status is None), progress.remaining - 1)
            result.set_status(self._check_feasible(info, progress))
            if result.status is not None and result.status.code is not Code.WAIT:
                break
        return _end_wait(result)

    def _check_feasible(self, info: PodGroupInfo, progress: PlacementProgress) -> Status | None:
        """Run the PlacementFeasible plugins; Unschedulable ends the evaluation, Wait does not."""
        found: Status | None = None
        for plugin in self._profile.placement_feasible_plugins:
            status = plugin.placement_feasible(info, progress)
            if status is None:
                continue
            if status.code is Code.WAIT:
                found = status
            elif status.code is Code.UNSCHEDULABLE:
                return status
            else:
                return Status(Code.ERROR, (f"running PlacementFeasible plugin: {status.message}",), plugin.name)
        return found

    # Single pods.

    async def _schedule_pod(self, queued: QueuedPodInfo, placement: Placement | None) -> PodResult:
        """Find a node for a pod and assume it there."""
        clock = self._settings.clock
        began = clock.monotonic()
        try:
            result = await self._find_node(queued, placement)
        except PluginTimeLimitExceeded:
            raise
        except Exception as error:
            result = PodResult(queued, Status(Code.ERROR, (str(error),)), nominated="")
        if result.status is None and result.cycle is not None:
            refusal = self.simulation.assume(result.cycle)
            if refusal is not None:
                status, diagnosis = diagnose_on_node(refusal)
                result = PodResult(queued, status, diagnosis=diagnosis, nominated="")
        result.set_duration(clock.monotonic() - began)
        self._settings.metrics.observe_pod(result.seconds)
        return result

    async def _find_node(self, queued: QueuedPodInfo, placement: Placement | None) -> PodResult:
        algorithm, info, opinions = self._algorithm, queued.info, None
        if not len(algorithm.cluster):
            return PodResult(queued, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (NO_NODES,)), nominated="")
        extenders = self._settings.state.extenders
        if extenders:
            feasible = algorithm.find_nodes_that_fit(self._profile, info, placement)
            opinions = await extenders.filter_and_prioritize(info.pod, feasible)
        cycle, diagnosis = algorithm.schedule_pod(self._profile, info, opinions, placement)
        if diagnosis is None:
            return PodResult(queued, cycle=cycle)
        return PodResult(queued, Status(Code.UNSCHEDULABLE, (diagnosis.message,)), diagnosis=diagnosis)


def _wrap_error(status: Status | None) -> Status | None:
    if status is None or status.code is not Code.ERROR:
        return status
    return Status(Code.ERROR, (f"failed to evaluate placement feasibility: {status.message}",), status.plugin)


def _end_wait(result: PodGroupResult) -> PodGroupResult:
    """Return a result in which Wait, with nothing left to wait for, means that the group is unschedulable."""
    if result.status is not None and result.status.code is Code.WAIT:
        result.set_status(group_unschedulable(*result.status.reasons))
    return result
