# SPDX-License-Identifier: Apache-2.0
"""Scheduling attempts: one scheduling cycle per pod, with the extenders if there are any."""

from __future__ import annotations

from collections.abc import Mapping

from kubeloop.scheduler.cycle.lazy_algorithm import LazyAlgorithm
from kubeloop.scheduler.cycle.results import SchedulingResults
from kubeloop.scheduler.extenders.extender import Extenders
from kubeloop.scheduler.framework.plugin import PluginTimeLimitExceeded
from kubeloop.scheduler.framework.profile import Profile
from kubeloop.scheduler.framework.status import Status
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo


class SchedulingAttempts:
    """Runs the scheduling cycles of popped pods; writes happen in the background."""

    def __init__(
        self,
        algorithm: LazyAlgorithm,
        profiles: Mapping[str, Profile],
        extenders: Extenders,
        results: SchedulingResults,
    ) -> None:
        self._algorithm = algorithm
        self._profiles = profiles
        self._extenders = extenders
        self._results = results

    def run(self, queued: QueuedPodInfo) -> PluginTimeLimitExceeded | None:
        """Schedule a pod; return the plugin's remaining work if it takes too long."""
        try:
            refusal = self._schedule(queued)
        except PluginTimeLimitExceeded as slow:
            return slow
        except Exception as error:
            refusal = self._results.handle_error(queued, error)
        self._results.count_attempt(queued, refusal)
        return None

    async def run_with_extenders(self, queued: QueuedPodInfo) -> PluginTimeLimitExceeded | None:
        """Schedule a pod with extenders; return the plugin's remaining work if it takes too long."""
        try:
            refusal = await self._schedule_with_extenders(queued)
        except PluginTimeLimitExceeded as slow:
            return slow
        except Exception as error:
            refusal = self._results.handle_error(queued, error)
        self._results.count_attempt(queued, refusal)
        return None

    def _schedule(self, queued: QueuedPodInfo) -> Status | None:
        algorithm, info = self._algorithm.current, queued.info
        if algorithm is None or not len(algorithm.cluster):
            return self._results.handle_no_nodes(queued)
        profile = self._profiles[info.pod.spec.scheduler_name]
        return self._results.finish_scheduling_cycle(algorithm, queued, *algorithm.schedule_pod(profile, info))

    async def _schedule_with_extenders(self, queued: QueuedPodInfo) -> Status | None:
        algorithm, info = self._algorithm.current, queued.info
        if algorithm is None or not len(algorithm.cluster):
            return self._results.handle_no_nodes(queued)
        profile = self._profiles[info.pod.spec.scheduler_name]
        feasible = algorithm.find_nodes_that_fit(profile, info)
        opinions = await self._extenders.filter_and_prioritize(info.pod, feasible)
        cycle, diagnosis = algorithm.schedule_pod(profile, info, opinions)
        if diagnosis is not None:
            for plugin in profile.post_filter_plugins:
                await plugin.query_extenders(cycle, diagnosis)
        return self._results.finish_scheduling_cycle(algorithm, queued, cycle, diagnosis)
