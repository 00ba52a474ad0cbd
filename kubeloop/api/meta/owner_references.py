# SPDX-License-Identifier: Apache-2.0
"""Owner references, compared by UID as the garbage collector does."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol, TypeVar


class OwnerReferenceLike(Protocol):
    """Protocol of an OwnerReference."""

    @property
    def api_version(self) -> str:
        """apiVersion of the owner."""

    @property
    def kind(self) -> str:
        """Kind of the owner."""

    @property
    def name(self) -> str:
        """Name of the owner."""

    @property
    def uid(self) -> str:
        """UID of the owner."""

    @property
    def controller(self) -> bool | None:
        """True if the owner is the managing controller."""


R = TypeVar("R", bound=OwnerReferenceLike)


def controller_of(references: Iterable[R]) -> R | None:
    """Return the reference to the managing controller, or None."""
    for reference in references:
        if reference.controller:
            return reference
    return None


def is_controlled_by(references: Iterable[OwnerReferenceLike], owner_uid: str) -> bool:
    """Return True if the controller reference has this UID; another owner of the same name does not count."""
    controller = controller_of(references)
    return controller is not None and controller.uid == owner_uid


def is_owned_by(references: Iterable[OwnerReferenceLike], owner_uid: str) -> bool:
    """Return True if any reference has this UID."""
    return any(reference.uid == owner_uid for reference in references)


def is_same_referent(one: OwnerReferenceLike, other: OwnerReferenceLike) -> bool:
    """Return True if two references name the same object in any version of its API, regardless of UID."""
    return (
        one.kind == other.kind and one.name == other.name and _group_of(one.api_version) == _group_of(other.api_version)
    )


def _group_of(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def with_owner(references: tuple[R, ...], owner: R) -> tuple[R, ...]:
    """Return the references with an owner's replaced in its place, or added; the same tuple if unchanged."""
    if owner in references:
        return references
    if is_owned_by(references, owner.uid):
        return tuple(owner if reference.uid == owner.uid else reference for reference in references)
    return (*references, owner)


def without_owners(references: tuple[R, ...], uids: Collection[str]) -> tuple[R, ...]:
    """Return the references without those to some owners; the same tuple if there are none."""
    kept = tuple(reference for reference in references if reference.uid not in uids)
    return kept if len(kept) != len(references) else references
