# SPDX-License-Identifier: Apache-2.0
"""Topology hints: the NUMA nodes from which a resource of a container can be allocated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from kubeloop.api.generated.core_v1 import Container, Pod


class TopologyHint(NamedTuple):
    """Set of NUMA nodes that can provide a resource; no affinity means any of them."""

    affinity: frozenset[int] | None
    preferred: bool


# By resource. None: the provider has no preference for it; an empty sequence: no allocation is possible.
ResourceHints = Mapping[str, Sequence[TopologyHint] | None]


class ResourceAllocationError(Exception):
    """Raised if the resources of a container cannot be allocated; the pod is rejected with the reason."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def unexpected_admission_error(cause: object) -> ResourceAllocationError:
    """Return the error of an allocation that failed although the hints were merged."""
    return ResourceAllocationError("UnexpectedAdmissionError", f"Allocate failed due to {cause}, which is unexpected")


class TopologyAffinity(Protocol):
    """Merged hints of admitted containers."""

    def get_affinity(self, pod_uid: str, container: str) -> TopologyHint:
        """Return the merged hint of a container."""


class HintProvider(Protocol):
    """Allocates resources of the machine to containers, aligned by hints."""

    def get_topology_hints(self, pod: Pod, container: Container) -> ResourceHints:
        """Return the hints of a container's resources; empty if it asks for none of the provider's."""

    def get_pod_topology_hints(self, pod: Pod) -> ResourceHints:
        """Return the hints of the resources of a whole pod."""

    async def allocate(self, pod: Pod, container: Container) -> None:
        """Allocate the resources of a container, by its affinity. Raises `ResourceAllocationError`."""
