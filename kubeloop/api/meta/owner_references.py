"""Who owns an object: owner references, compared by UID as garbage collection does."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol, TypeVar


class Reference(Protocol):
    """What an owner reference tells."""

    @property
    def api_version(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def controller(self) -> bool | None: ...


R = TypeVar("R", bound=Reference)


def controller_of(references: Iterable[R]) -> R | None:
    """The reference to the one owner that manages the object, if there is one."""
    for reference in references:
        if reference.controller:
            return reference
    return None


def is_controlled_by(references: Iterable[Reference], owner_uid: str) -> bool:
    """Whether the managing owner is this very one: a namesake with another UID is not."""
    controller = controller_of(references)
    return controller is not None and controller.uid == owner_uid


def is_owned_by(references: Iterable[Reference], owner_uid: str) -> bool:
    """Whether any reference points to this very owner."""
    return any(reference.uid == owner_uid for reference in references)


def refer_to_same_object(one: Reference, other: Reference) -> bool:
    """Whether two references name the same object in any version of its API, whatever their UIDs."""
    return (
        one.kind == other.kind and one.name == other.name and _group_of(one.api_version) == _group_of(other.api_version)
    )


def _group_of(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def with_owner(references: tuple[R, ...], owner: R) -> tuple[R, ...]:
    """The references with an owner's replaced in its place, or added; the same tuple when it is there already."""
    if owner in references:
        return references
    if is_owned_by(references, owner.uid):
        return tuple(owner if reference.uid == owner.uid else reference for reference in references)
    return (*references, owner)


def without_owners(references: tuple[R, ...], uids: Collection[str]) -> tuple[R, ...]:
    """The references but those to some owners; the same tuple when there are none."""
    kept = tuple(reference for reference in references if reference.uid not in uids)
    return kept if len(kept) != len(references) else references
