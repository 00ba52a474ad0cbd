# SPDX-License-Identifier: Apache-2.0
"""Topology manager: asks the hint providers at the admission of a pod, and has them allocate by the merged hint."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.kubelet.cm.topology.hints import HintProvider, TopologyHint

NO_AFFINITY = TopologyHint(None, False)


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
    """Allocates the resources of pods by their providers, in the order of the providers."""

    def __init__(self, affinities: AffinityStore, providers: Sequence[HintProvider]) -> None:
        self._affinities = affinities
        self._providers = tuple(providers)

    async def admit(self, pod: Pod) -> None:
        """Allocate the resources of all containers of a pod. Raises `AllocationError`."""
        for container in containers_of(pod):
            for one in self._providers:
                await one.allocate(pod, container)

    def remove_pod(self, uid: str) -> None:
        """Forget the hints of a pod."""
        self._affinities.remove_pod(uid)


def containers_of(pod: Pod) -> tuple[Container, ...]:
    """Return the containers to which resources are allocated, in the order of their start."""
    return (*pod.spec.init_containers, *(pod.spec.containers or ()))
