# SPDX-License-Identifier: Apache-2.0
"""State of a pod's claims during one scheduling attempt, and the devices selected for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kubeloop.api.generated.core_v1 import ContainerExtendedResourceRequest, Pod
from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.scheduler.framework.status import Status

if TYPE_CHECKING:
    from kubeloop.scheduler.dra.allocator import DeviceAllocation

_MAX_SUBREQUESTS = 8  # limit of subrequests (FirstAvailableDeviceRequestMaxSize)


class NodeAllocation(NamedTuple):
    """Claims to be allocated on a node, their devices, and the mapping of extended resources to requests."""

    claims: Sequence[ResourceClaim]
    mappings: Sequence[ContainerExtendedResourceRequest]
    device_allocations: Sequence[Sequence[DeviceAllocation]] = ()


@dataclass(slots=True)
class ClaimState:
    """Pod's claims in a scheduling attempt; filled while nodes are filtered."""

    pod: Pod
    claims: Sequence[ResourceClaim]  # claims referenced by the pod
    extended_resources: tuple[str, ...]  # extended resources backed by a device class
    leftover_claim: ResourceClaim | None = None  # extended resource claim of a failed attempt
    extended_claims: dict[tuple[str, ...], NodeAllocation] = field(
        default_factory=dict
    )  # by resources that a node lacks
    node_allocations: dict[str, NodeAllocation] = field(default_factory=dict)  # by node
    unavailable_claims: dict[str, ResourceClaim] = field(default_factory=dict)  # by uid: not available on some node
    statuses: list[Status] = field(default_factory=list)

    @property
    def allocated_claims(self) -> list[ResourceClaim]:
        """Claims that are allocated already."""
        return [one for one in self.claims if one.status.allocation is not None]

    @property
    def unallocated_claims(self) -> list[ResourceClaim]:
        """Claims that are not allocated yet."""
        return [one for one in self.claims if one.status.allocation is None]

    def number_status(self, one: Status) -> int:
        """Return the 1-based number of a status, adding it if it is new."""
        if one not in self.statuses:
            self.statuses.append(one)
        return self.statuses.index(one) + 1


def score_allocation(state: ClaimState, found: NodeAllocation) -> int:
    """Return the score of a node: subrequests that come earlier in a request score higher."""
    chosen: dict[str, set[str]] = {
        one.metadata.uid: {each.request for each in one.status.allocation.devices.results}
        for one in state.claims
        if one.status.allocation is not None
    }
    for claim, given in zip(found.claims, found.device_allocations, strict=True):
        chosen[claim.metadata.uid] = {one.request for one in given}
    return sum(
        _MAX_SUBREQUESTS - position
        for claim in state.claims
        for request in claim.spec.devices.requests or ()
        for position, one in enumerate(request.first_available)
        if f"{request.name}/{one.name}" in chosen.get(claim.metadata.uid, ())
    )


@dataclass(slots=True)
class ClaimAllocation:
    """Allocation for a pod on the selected node; filled while it is written."""

    claims: list[ResourceClaim]
    mappings: Sequence[ContainerExtendedResourceRequest]
    allocations: dict[str, dict[str, Any]] = field(default_factory=dict)  # by the uids of the claims
    claim_to_create: ResourceClaim | None = None  # extended resource claim to be created
    created_claim: ResourceClaim | None = None
    written_uids: set[str] = field(default_factory=set)
    observed_uids: set[str] = field(default_factory=set)  # claims that the informer has caught up with

    def set_claim_to_create(self, claim: ResourceClaim) -> None:
        """Set the extended resource claim to be created."""
        self.claim_to_create = claim

    def set_created_claim(self, claim: ResourceClaim) -> None:
        """Set the extended resource claim as it was created, or written since."""
        self.created_claim = claim
