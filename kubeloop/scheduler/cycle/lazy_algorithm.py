# SPDX-License-Identifier: Apache-2.0
"""Scheduling algorithm that is loaded when the first node appears; until then neither numpy nor most plugins are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kubeloop.api.pods.pod import is_terminal
from kubeloop.runtime.informer.informer import Informer
from kubeloop.scheduler.cache.pod_info import SignatureCache
from kubeloop.scheduler.framework.profile import Profile

if TYPE_CHECKING:
    from kubeloop.scheduler.cache.assumed_pods import AssumptionListener
    from kubeloop.scheduler.cycle.algorithm import SchedulingAlgorithm


class LazyAlgorithm:
    """Holds the scheduling algorithm and starts it on demand."""

    def __init__(
        self,
        signatures: SignatureCache,
        profiles: Mapping[str, Profile],
        pods: Informer,
        listener: AssumptionListener | None = None,
    ) -> None:
        self._signatures = signatures
        self._profiles = profiles
        self._pods = pods
        self._listener = listener  # of assumed pods
        self._current: SchedulingAlgorithm | None = None

    @property
    def current(self) -> SchedulingAlgorithm | None:
        """Scheduling algorithm; None until the first node appears."""
        return self._current

    def start(self) -> SchedulingAlgorithm:
        """Return the algorithm; at first, load it and all plugins, and add the assigned pods to its cache."""
        if self._current is None:
            from kubeloop.scheduler.cycle.algorithm import SchedulingAlgorithm

            self._current = SchedulingAlgorithm(self._signatures, self._listener)
            for profile in self._profiles.values():
                profile.load_plugins()
            for pod in self._pods.list():
                if pod.spec.node_name and not is_terminal(pod):
                    self._current.assumed_pods.add_pod(pod)
        return self._current

    def cache_size(self, what: str) -> float:
        """Return the number of cached nodes, pods or assumed pods."""
        return 0.0 if self._current is None else float(self._current.sizes()[what])
