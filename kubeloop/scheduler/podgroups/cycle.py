# SPDX-License-Identifier: Apache-2.0
"""Scheduling cycle of a pod group: all of its queued pods are tried together, and enough of them bound, or none."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kubeloop.scheduler.cycle.skipped_pods import SkippedPods
from kubeloop.scheduler.framework.plugin import PluginTimeLimitExceeded
from kubeloop.scheduler.framework.profile import Profile
from kubeloop.scheduler.framework.status import Code, Status
from kubeloop.scheduler.podgroups.algorithm import PodGroupAlgorithm
from kubeloop.scheduler.podgroups.pod_group_info import PodGroupInfo, build_pod_group_info
from kubeloop.scheduler.podgroups.result import (
    PodGroupPostFilterResult,
    PodGroupResults,
    PodResult,
    complete_results,
    placed_pods,
)
from kubeloop.scheduler.podgroups.submission import PodGroupSubmission
from kubeloop.scheduler.podgroups.validation import validate_pod_group
from kubeloop.scheduler.queue.pod_group_queue import PodGroupQueue
from kubeloop.scheduler.queue.queued_pod_group_info import QueuedPodGroupInfo

if TYPE_CHECKING:
    from kubeloop.scheduler.cache.cluster import ClusterState

log = logging.getLogger(__name__)


class PodGroupCycle:
    """Runs the cycles of popped groups; writes happen in the background."""

    def __init__(
        self,
        algorithm: PodGroupAlgorithm,
        profiles: Mapping[str, Profile],
        queue: PodGroupQueue,
        skipped: SkippedPods,
        submission: PodGroupSubmission,
    ) -> None:
        self._algorithm = algorithm
        self._profiles = profiles
        self._queue = queue
        self._skipped = skipped
        self._submission = submission

    async def run(self, queued: QueuedPodGroupInfo) -> PluginTimeLimitExceeded | None:
        """Schedule a group; return the plugin's remaining work if it takes too long."""
        state, clock = self._algorithm.state, self._algorithm.clock
        info = build_pod_group_info(state.pod_groups, queued.root, list(queued.pods))
        if info is None:
            self._return_pods(queued)
            return None
        if error := validate_pod_group(info, state.pod_groups, state.features, self._profiles):
            self._reject(queued, info, Status(Code.ERROR, (error,)))
            return None
        for leaf in info.leaves():
            leaf.keep_pods([one for one in leaf.pods if not self._skipped.skip(one)])
        first = next(info.all_pods(), None)
        if first is None:
            self._queue.add_attempted_pod_group_if_needed(queued, None)
            return None
        profile, began = self._profiles[first.info.pod.spec.scheduler_name], clock.monotonic()
        try:
            results, status = await self._schedule(profile, info)
        except PluginTimeLimitExceeded as slow:
            return slow
        except Exception as error:
            log.exception("scheduling of pod group %s failed", queued.root)
            self._reject(queued, info, Status(Code.ERROR, (str(error),)))
            return None
        rejection = self._submission.submit(results)
        result = _metric_result(results[info.key].status, waiting=results[info.key].waiting_on_preemption)
        self._algorithm.metrics.count_attempt(result, profile.name, clock.monotonic() - began)
        # Without a backoff, a pod that is rejected again and again would be tried without end.
        self._queue.add_attempted_pod_group_if_needed(queued, status or rejection)
        return None

    def _return_pods(self, queued: QueuedPodGroupInfo) -> None:
        """Return the pods of a group that no longer exists to the queue, where they wait for it."""
        for one in queued.pods:
            self._queue.add_unschedulable_pod_if_not_present(one, error=True)
        self._queue.add_attempted_pod_group_if_needed(queued, None)

    def _reject(self, queued: QueuedPodGroupInfo, info: PodGroupInfo, status: Status) -> None:
        self._submission.reject_all(info, status)
        self._queue.add_attempted_pod_group_if_needed(queued, status)

    async def _schedule(self, profile: Profile, info: PodGroupInfo) -> tuple[PodGroupResults, Status | None]:
        """Return the complete results, and the status of the topmost group before PodGroupPostFilter."""
        algorithm = self._algorithm
        began = algorithm.clock.monotonic()
        results = await algorithm.run(profile, info)
        status = results[info.key].status
        complete_results(info, results)
        algorithm.metrics.observe_algorithm(algorithm.clock.monotonic() - began)
        if status is not None and status.code is Code.UNSCHEDULABLE:
            _apply_post_filter(results, await self._run_post_filter_plugins(profile, info))
        return results, status

    async def _run_post_filter_plugins(self, profile: Profile, info: PodGroupInfo) -> PodGroupPostFilterResult | Status:
        reasons: list[str] = []
        for plugin in profile.pod_group_post_filter_plugins:
            found = await plugin.pod_group_post_filter(info, _Trial(self._algorithm, profile, info))
            self._algorithm.metrics.observe_preemption(found)
            if isinstance(found, PodGroupPostFilterResult):
                return found
            if found is None:
                continue
            if found.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return found
            if found.code is not Code.UNSCHEDULABLE:
                told = f'error in "{plugin.name}" PodGroupPostFilter plugins: {found.message}'
                return Status(Code.ERROR, (told,), plugin.name)
            reasons += found.reasons
        return Status(Code.UNSCHEDULABLE, tuple(reasons))


class _Trial:
    """Trial of a group, for PodGroupPostFilter plugins."""

    def __init__(self, algorithm: PodGroupAlgorithm, profile: Profile, info: PodGroupInfo) -> None:
        self._algorithm = algorithm
        self._profile = profile
        self._info = info
        self.simulation = algorithm.simulation()
        self.cluster: ClusterState = algorithm.cluster

    async def run(self) -> tuple[list[PodResult], Status | None]:
        """Return the pods that would have a node, and the status of the topmost group."""
        results = await self._algorithm.run(self._profile, self._info)
        return placed_pods(self._info, results), results[self._info.key].status


def _apply_post_filter(results: PodGroupResults, found: PodGroupPostFilterResult | Status) -> None:
    """Add the outcome of PodGroupPostFilter to the results of all groups."""
    message = found.message
    for result in results.values():
        if isinstance(found, PodGroupPostFilterResult):
            result.wait_on_preemption(found.nominations)
        elif found.code is Code.ERROR:
            result.set_status(found)
            continue
        result.append_reason(message)


def _metric_result(status: Status | None, *, waiting: bool) -> str:
    if status is None:
        return "scheduled"
    if not status.is_rejected:
        return "error"
    return "waiting_on_preemption" if waiting else "unschedulable"
