# SPDX-License-Identifier: Apache-2.0
"""Topology manager: asks the hint providers at the admission of a pod, and has them allocate by the merged hint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.clock import SystemClock
from kubeloop.kubelet.cm.manager_metrics import NUMA_NODE, ResourceManagerMetrics
from kubeloop.kubelet.cm.topology.hints import HintProvider, ResourceAllocationError, ResourceHints, TopologyHint
from kubeloop.kubelet.cm.topology.policies import TopologyPolicy
from kubeloop.metrics import MetricRegistry

NO_AFFINITY = TopologyHint(None, False)
POD_SCOPE, CONTAINER_SCOPE = "pod", "container"


class AffinityStore:
    """Merged hints of admitted containers, by pod UID and name."""

    def __init__(self) -> None:
        self._hints: dict[str, dict[str, TopologyHint]] = {}

    def get_affinity(self, pod_uid: str, container: str) -> TopologyHint:
        """Return the merged hint of a container; no affinity if none was set."""
        return self._hints.get(pod_uid, {}).get(container, NO_AFFINITY)

    def set_affinity(self, pod_uid: str, container: str, hint: TopologyHint) -> None:
        """Set the merged hint of a container."""
        self._hints.setdefault(pod_uid, {})[container] = hint

    def remove_pod(self, pod_uid: str) -> None:
        """Forget the hints of a pod."""
        self._hints.pop(pod_uid, None)


class TopologyManager:
    """Allocates the resources of pods by their providers, in the order of the providers.

    Without a policy there are no hints. The scope decides if containers or whole pods are aligned.
    """

    def __init__(
        self,
        affinities: AffinityStore,
        providers: Sequence[HintProvider],
        policy: TopologyPolicy | None = None,
        scope: str = CONTAINER_SCOPE,
        *,
        metrics: ResourceManagerMetrics | None = None,
    ) -> None:
        self._affinities = affinities
        self._providers = tuple(providers)
        self._policy = policy
        self._scope = scope
        self._metrics = metrics or ResourceManagerMetrics(MetricRegistry(), SystemClock().monotonic)
        if policy is not None:
            self._metrics.show_numa_alignment()

    async def admit(self, pod: Pod) -> None:
        """Allocate the resources of all containers of a pod. Raises `ResourceAllocationError`."""
        with self._metrics.measure_admission():
            try:
                await self._admit(pod)
            except ResourceAllocationError:
                if self._policy is not None:
                    self._metrics.admission_errors.increment()
                raise

    def remove_pod(self, uid: str) -> None:
        """Forget the hints of a pod."""
        self._affinities.remove_pod(uid)

    async def _admit(self, pod: Pod) -> None:
        if self._policy is not None and self._scope == POD_SCOPE:
            hint = self._merge(self._policy, (one.get_pod_topology_hints(pod) for one in self._providers))
            for container in containers_of(pod):
                self._affinities.set_affinity(pod.metadata.uid, container.name, hint)
        for container in containers_of(pod):
            if self._policy is not None and self._scope == CONTAINER_SCOPE:
                hints = (one.get_topology_hints(pod, container) for one in self._providers)
                self._affinities.set_affinity(pod.metadata.uid, container.name, self._merge(self._policy, hints))
            for one in self._providers:
                await one.allocate(pod, container)
            self._count_aligned(CONTAINER_SCOPE)
        self._count_aligned(POD_SCOPE)

    def _merge(self, policy: TopologyPolicy, hints: Iterable[ResourceHints]) -> TopologyHint:
        hint, admits = policy.merge(hints)
        if not admits:
            if policy.is_alignment_guaranteed:
                self._metrics.count_alignment(self._scope, NUMA_NODE, failed=True)
            raise ResourceAllocationError(
                "TopologyAffinityError", "Resources cannot be allocated with Topology locality"
            )
        return hint

    def _count_aligned(self, scope: str) -> None:
        if self._policy is not None and self._policy.is_alignment_guaranteed and self._scope == scope:
            self._metrics.count_alignment(scope, NUMA_NODE)


def containers_of(pod: Pod) -> tuple[Container, ...]:
    """Return the containers to which resources are allocated, in the order of their start."""
    return (*pod.spec.init_containers, *(pod.spec.containers or ()))
