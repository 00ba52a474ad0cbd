# SPDX-License-Identifier: Apache-2.0
"""Controller reference manager: adopts orphans that an owner's selector matches, releases those it no longer does.

An orphan is adopted only if the owner still exists, which the cache may not know: the server is asked before the
first adoption. Nothing is taken from another owner, and an owner that is being deleted adopts and releases nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from kubeloop.api.errors import Invalid, NotFound
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.selectors import LabelSelector
from kubeloop.runtime.objects.owner_references import adoption_patch, controller_reference, release_patch
from kubeloop.runtime.objects.patcher import Patcher

T = TypeVar("T")
LiveCheck = Callable[[], Awaitable[None]]
MAX_CONCURRENT_CALLS = 64  # concurrent calls of one round of claims


class AdoptionError(Exception):
    """Adoption by an owner that is gone or being deleted, unknown to the cache."""


class ClaimAction(Enum):
    """Action for an object: adopt, release, keep or ignore."""

    OWNED = "owned and matching: keep"
    ADOPT = "orphaned and matching: adopt"
    RELEASE = "owned and not matching: release"
    IGNORE = "not related to the owner: ignore"


_NEEDS_A_CALL = (ClaimAction.ADOPT, ClaimAction.RELEASE)


@dataclass(frozen=True)
class ClaimOwner:
    """Owner with its selector."""

    owner: Any
    resource: Resource
    selector: LabelSelector
    finalizers: tuple[str, ...] = ()  # added on adoption, removed on release


def claim_action_of(claimant: ClaimOwner, obj: Any, matches: Callable[[Any], bool]) -> ClaimAction:
    """Decide what to do with an object, from the cache alone."""
    owner, meta = claimant.owner.metadata, obj.metadata
    manager = controller_of(meta.owner_references)
    if manager is not None:
        if manager.uid != owner.uid:
            return ClaimAction.IGNORE
        if matches(obj):  # also while the owner is being deleted: nothing has to be done for it
            return ClaimAction.OWNED
        return ClaimAction.RELEASE if owner.deletion_timestamp is None else ClaimAction.IGNORE
    if owner.deletion_timestamp is not None or not matches(obj):
        return ClaimAction.IGNORE
    if meta.deletion_timestamp is not None or (owner.namespace and owner.namespace != meta.namespace):
        return ClaimAction.IGNORE
    return ClaimAction.ADOPT


async def claim(
    client: Patcher,
    claimant: ClaimOwner,
    resource: Resource,
    objects: Iterable[T],
    may_adopt: LiveCheck,
    wanted: Callable[[T], bool] | None = None,
) -> list[T]:
    """Return the objects that the owner controls in the end; `wanted` narrows down the selector's matches.

    All objects are processed concurrently before failures are raised: one as it is, several as a group.
    """
    claiming = _ClaimRound(client, claimant, resource, may_adopt)

    def matches(obj: Any) -> bool:
        return claimant.selector.matches(obj.metadata.labels) and (wanted is None or wanted(obj))

    judged = [(obj, claim_action_of(claimant, obj, matches)) for obj in objects]
    outcomes = await claiming.apply_actions(judged)
    failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup(f"failed to claim {len(failures)} {resource.plural}", failures)
    return [obj for (obj, _), is_owned in zip(judged, outcomes, strict=True) if is_owned]


class _ClaimRound:
    """One round of claims; the owner is read from the server at most once."""

    def __init__(self, client: Patcher, claimant: ClaimOwner, resource: Resource, may_adopt: LiveCheck) -> None:
        self._client = client
        self._claimant = claimant
        self._resource = resource
        self._may_adopt = may_adopt
        self._refusal: Exception | None = None

    async def apply_actions(self, judged: Sequence[tuple[Any, ClaimAction]]) -> list[bool | Exception]:
        """Return for each object True if the owner controls it now, or the exception."""
        outcomes: list[bool | Exception] = [verdict is ClaimAction.OWNED for _, verdict in judged]

        async def attempt(position: int) -> None:
            try:
                outcomes[position] = await self._act(*judged[position])
            except Exception as error:
                outcomes[position] = error

        pending = [position for position, (_, verdict) in enumerate(judged) if verdict in _NEEDS_A_CALL]
        if any(judged[position][1] is ClaimAction.ADOPT for position in pending):
            await self._check()
        for begin in range(0, len(pending), MAX_CONCURRENT_CALLS):
            async with asyncio.TaskGroup() as group:
                for position in pending[begin : begin + MAX_CONCURRENT_CALLS]:
                    group.create_task(attempt(position))
        return outcomes

    async def _act(self, obj: Any, verdict: ClaimAction) -> bool:
        if verdict is ClaimAction.ADOPT:
            return await self._adopt(obj)
        await self._release(obj)
        return False

    async def _adopt(self, obj: Any) -> bool:
        self._refuse(obj)
        reference = controller_reference(self._claimant.owner, self._claimant.resource)
        try:
            found = await self._patch(obj, adoption_patch(reference, obj.metadata.uid, self._claimant.finalizers))
        except NotFound:
            return False
        return not _has_ended(found.metadata)

    async def _release(self, obj: Any) -> None:
        patch = release_patch(self._claimant.owner.metadata.uid, obj.metadata.uid, self._claimant.finalizers)
        try:
            await self._patch(obj, patch)
        except (NotFound, Invalid):
            return  # it is deleted; or it has no owners, or it is a recreated object: released all the same

    async def _check(self) -> None:
        try:
            await self._may_adopt()
        except Exception as error:
            self._refusal = error

    def _refuse(self, obj: Any) -> None:
        if self._refusal is not None:
            meta = obj.metadata
            what = f"{self._resource.kind} {meta.namespace}/{meta.name} ({meta.uid})"
            raise AdoptionError(f"can't adopt {what}: {self._refusal}") from self._refusal

    async def _patch(self, obj: Any, patch: dict[str, Any]) -> Any:
        meta = obj.metadata
        return await self._client.patch(self._resource, meta.name, patch, meta.namespace, type=STRATEGIC_PATCH)


def _has_ended(metadata: ObjectMeta) -> bool:
    """Return True if the server has removed the object with this write, because nothing was left to wait for.

    The event of its deletion has the object of before, an orphan, which enqueues no owner.
    """
    is_waiting = metadata.finalizers or metadata.deletion_grace_period_seconds
    return metadata.deletion_timestamp is not None and not is_waiting


def live_check(owner: Any, kind: str, read: Callable[[], Awaitable[Any]]) -> LiveCheck:
    """Return a check that reads the owner from the server: same uid, and not being deleted."""

    async def check() -> None:
        expected = owner.metadata
        where = f"{expected.namespace}/{expected.name}"
        try:
            found = (await read()).metadata
        except Exception as error:
            raise AdoptionError(f"can't recheck DeletionTimestamp: {error}") from error
        if found.uid != expected.uid:
            gone = f"original {kind} {where} is gone: got uid {found.uid}, wanted {expected.uid}"
            raise AdoptionError(f"can't recheck DeletionTimestamp: {gone}")
        if found.deletion_timestamp is not None:
            raise AdoptionError(f"{where} has just been deleted at {found.deletion_timestamp}")

    return check
