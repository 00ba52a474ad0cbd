"""Which objects belong to an owner: those that its selector matches are adopted, those it no longer does released.

An orphan is taken only if the owner still lives, which the cache may not know: the server is asked before the first
adoption. Nothing is taken from another owner, and an owner that is being deleted takes and releases nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from kubeloop.api.calls import STRATEGIC_PATCH
from kubeloop.api.errors import Invalid, NotFound
from kubeloop.api.kinds import Resource
from kubeloop.api.owners import controller_of
from kubeloop.api.selectors import LabelSelector
from kubeloop.runtime.owner_references import adoption_patch, controller_reference, release_patch
from kubeloop.runtime.patching import Patcher

T = TypeVar("T")
LiveCheck = Callable[[], Awaitable[None]]


class CannotAdopt(Exception):
    """The owner is gone or going; its cache didn't know."""


class Verdict(Enum):
    """What is to be done about an object."""

    OWNED = "it is the owner's, and stays so"
    ADOPT = "it is nobody's, and matches"
    RELEASE = "it is the owner's, and no longer matches"
    IGNORE = "it is none of the owner's business"


@dataclass(frozen=True)
class Claimant:
    """An owner and what it is entitled to."""

    owner: Any
    resource: Resource
    selector: LabelSelector
    finalizers: tuple[str, ...] = ()  # put on what is adopted, taken from what is released


def verdict_of(claimant: Claimant, obj: Any, matches: Callable[[Any], bool]) -> Verdict:
    """What to do about an object, from what the cache knows."""
    owner, meta = claimant.owner.metadata, obj.metadata
    manager = controller_of(meta.owner_references)
    if manager is not None:
        if manager.uid != owner.uid:
            return Verdict.IGNORE
        if matches(obj):  # also while the owner is being deleted: nothing has to be done for it
            return Verdict.OWNED
        return Verdict.RELEASE if owner.deletion_timestamp is None else Verdict.IGNORE
    if owner.deletion_timestamp is not None or not matches(obj):
        return Verdict.IGNORE
    if meta.deletion_timestamp is not None or (owner.namespace and owner.namespace != meta.namespace):
        return Verdict.IGNORE
    return Verdict.ADOPT


async def claim(
    client: Patcher,
    claimant: Claimant,
    resource: Resource,
    objects: Iterable[T],
    may_adopt: LiveCheck,
    wanted: Callable[[T], bool] | None = None,
) -> list[T]:
    """The objects of this resource that are the owner's in the end; `wanted` narrows down what the selector matches.

    All objects are seen to before the failures among them are raised: one as it is, several as a group.
    """
    claiming = _Claiming(client, claimant, resource, may_adopt)
    claimed, failures = [], []

    def matches(obj: Any) -> bool:
        return claimant.selector.matches(obj.metadata.labels) and (wanted is None or wanted(obj))

    for obj in objects:
        try:
            if await claiming.act(obj, verdict_of(claimant, obj, matches)):
                claimed.append(obj)
        except Exception as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup(f"can't claim {len(failures)} {resource.plural}", failures)
    return claimed


class _Claiming:
    """One round of claims; the server is asked about the owner at most once in it."""

    def __init__(self, client: Patcher, claimant: Claimant, resource: Resource, may_adopt: LiveCheck) -> None:
        self._client = client
        self._claimant = claimant
        self._resource = resource
        self._may_adopt = may_adopt
        self._checked = False
        self._refusal: Exception | None = None

    async def act(self, obj: Any, verdict: Verdict) -> bool:
        """Whether the object is the owner's now."""
        if verdict is Verdict.ADOPT:
            return await self._adopt(obj)
        if verdict is Verdict.RELEASE:
            await self._release(obj)
        return verdict is Verdict.OWNED

    async def _adopt(self, obj: Any) -> bool:
        await self._check(obj)
        reference = controller_reference(self._claimant.owner, self._claimant.resource)
        try:
            await self._patch(obj, adoption_patch(reference, obj.metadata.uid, self._claimant.finalizers))
        except NotFound:
            return False
        return True

    async def _release(self, obj: Any) -> None:
        patch = release_patch(self._claimant.owner.metadata.uid, obj.metadata.uid, self._claimant.finalizers)
        try:
            await self._patch(obj, patch)
        except (NotFound, Invalid):
            return  # it is gone; or it has no owners any more, or it is a namesake: released all the same

    async def _check(self, obj: Any) -> None:
        if not self._checked:
            self._checked = True
            try:
                await self._may_adopt()
            except Exception as error:
                self._refusal = error
        if self._refusal is not None:
            meta = obj.metadata
            what = f"{self._resource.kind} {meta.namespace}/{meta.name} ({meta.uid})"
            raise CannotAdopt(f"can't adopt {what}: {self._refusal}") from self._refusal

    async def _patch(self, obj: Any, patch: dict[str, Any]) -> None:
        meta = obj.metadata
        await self._client.patch(self._resource, meta.name, patch, meta.namespace, type=STRATEGIC_PATCH)


def live_check(owner: Any, kind: str, read: Callable[[], Awaitable[Any]]) -> LiveCheck:
    """A check that reads the owner from the server: it has to be the same one, and not being deleted."""

    async def check() -> None:
        expected = owner.metadata
        where = f"{expected.namespace}/{expected.name}"
        try:
            found = (await read()).metadata
        except Exception as error:
            raise CannotAdopt(f"can't recheck DeletionTimestamp: {error}") from error
        if found.uid != expected.uid:
            gone = f"original {kind} {where} is gone: got uid {found.uid}, wanted {expected.uid}"
            raise CannotAdopt(f"can't recheck DeletionTimestamp: {gone}")
        if found.deletion_timestamp is not None:
            raise CannotAdopt(f"{where} has just been deleted at {found.deletion_timestamp}")

    return check
