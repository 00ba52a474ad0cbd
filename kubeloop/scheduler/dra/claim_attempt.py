"""What is known of a pod's claims during one attempt to find it a node, and what was chosen for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kubeloop.api.generated.core_v1 import ContainerExtendedResourceRequest, Pod
from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.scheduler.framework.status import Refusal

if TYPE_CHECKING:
    from kubeloop.scheduler.dra.allocator import Given

_MOST_CHOICES = 8  # alternatives that a request may have


class Found(NamedTuple):
    """Claims that need devices on a node, which they may get; and how containers use those for extended resources."""

    claims: Sequence[ResourceClaim]
    mappings: Sequence[ContainerExtendedResourceRequest]
    given: Sequence[Sequence[Given]] = ()


@dataclass(slots=True)
class Attempt:
    """A pod's claims; filled while nodes are looked at."""

    pod: Pod
    claims: Sequence[ResourceClaim]  # those that it names
    extended: tuple[str, ...]  # resources that a class stands for
    left_over: ResourceClaim | None = None  # made for these in an attempt that came to nothing
    made: dict[tuple[str, ...], Found] = field(default_factory=dict)  # by the resources that a node has none of
    found: dict[str, Found] = field(default_factory=dict)  # by node
    unavailable: dict[str, ResourceClaim] = field(default_factory=dict)  # by uid: on some node they were not
    problems: list[Refusal] = field(default_factory=list)

    @property
    def allocated(self) -> list[ResourceClaim]:
        return [one for one in self.claims if one.status.allocation is not None]

    @property
    def needy(self) -> list[ResourceClaim]:
        return [one for one in self.claims if one.status.allocation is None]

    def problem(self, one: Refusal) -> int:
        """Its number, from one on."""
        if one not in self.problems:
            self.problems.append(one)
        return self.problems.index(one) + 1


def liking(state: Attempt, found: Found) -> int:
    """The earlier of what a request would take, the better."""
    chosen: dict[str, set[str]] = {
        one.metadata.uid: {each.request for each in one.status.allocation.devices.results}
        for one in state.claims
        if one.status.allocation is not None
    }
    for claim, given in zip(found.claims, found.given, strict=True):
        chosen[claim.metadata.uid] = {one.request for one in given}
    return sum(
        _MOST_CHOICES - position
        for claim in state.claims
        for request in claim.spec.devices.requests or ()
        for position, one in enumerate(request.first_available)
        if f"{request.name}/{one.name}" in chosen.get(claim.metadata.uid, ())
    )


@dataclass(slots=True)
class Choice:
    """What a pod gets on the node that was chosen; filled while it is written."""

    claims: list[ResourceClaim]
    mappings: Sequence[ContainerExtendedResourceRequest]
    allocations: dict[str, dict[str, Any]] = field(default_factory=dict)  # by the claims' uids
    to_make: ResourceClaim | None = None  # for extended resources
    made: ResourceClaim | None = None
    written: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)  # claims that the cache has as they were written, or later
