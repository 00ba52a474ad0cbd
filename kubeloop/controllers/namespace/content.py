# SPDX-License-Identifier: Apache-2.0
"""Deletes all objects of one kind from a namespace, and reports the remaining ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubeloop.api.errors import ApiError, MethodNotAllowed, NotFound
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.api.pods.pod import is_terminal
from kubeloop.client import Client
from kubeloop.client.errors import ClientError
from kubeloop.clock import Clock

# Assumed duration of finalizers.
FINALIZER_SECONDS = 15
_UNSUPPORTED = (MethodNotAllowed, NotFound)


class ContentRemainingError(Exception):
    """Raised if objects remain without a reason."""


@dataclass(frozen=True, slots=True)
class RemainingContent:
    """Remaining objects of a kind, and the expected seconds until they are gone."""

    resource: Resource
    objects: Sequence[ObjectMeta] = ()
    seconds: int = 0
    failure: Exception | None = None

    def finalizers(self) -> Counter[str]:
        """Count the objects by finalizer."""
        return Counter(finalizer for one in self.objects for finalizer in one.finalizers)


class NamespaceContent:
    """Content of namespaces."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def remove(self, resource: Resource, namespace: str, deleted_at: datetime) -> RemainingContent:
        """Delete all objects of a kind; a failure is part of the result, so that other kinds continue."""
        seconds = 0
        try:
            before = await self._listed(resource, namespace, whole=_is_pods(resource))
            if before is not None and not before:
                return RemainingContent(resource)
            if before and _is_pods(resource):
                seconds = estimate_grace_seconds(before, deleted_at, self._clock.now())
            await self._delete(resource, namespace, before)
            after = await self._listed(resource, namespace) or ()
        except (ApiError, ClientError) as error:
            return RemainingContent(resource, seconds=seconds, failure=error)
        return evaluate_remaining(resource, namespace, [one.metadata for one in after], seconds)

    async def _listed(self, resource: Resource, namespace: str, whole: bool = False) -> Sequence[Any] | None:
        """List the objects; None if the kind can't be listed."""
        if "list" not in resource.verbs:
            return None
        try:
            return (await self._client.list(resource, namespace, metadata_only=not whole)).items
        except _UNSUPPORTED:
            return None

    async def _delete(self, resource: Resource, namespace: str, objects: Sequence[Any] | None) -> None:
        # Background deletion suffices, since all dependents are deleted anyway.
        if "deletecollection" in resource.verbs:
            try:
                await self._client.delete_collection(resource, namespace, propagation="Background")
                return
            except _UNSUPPORTED:
                pass  # some servers list verbs that they don't support
        for one in objects or ():
            try:
                await self._client.delete(resource, one.metadata.name, namespace, propagation="Background")
            except _UNSUPPORTED:
                continue


def evaluate_remaining(
    resource: Resource, namespace: str, objects: Sequence[ObjectMeta], seconds: int
) -> RemainingContent:
    """Evaluate the remaining objects: expected for some time, or a failure."""
    if not objects:
        return RemainingContent(resource)
    if seconds:
        return RemainingContent(resource, objects, seconds)
    if any(one.finalizers for one in objects):
        return RemainingContent(resource, objects, FINALIZER_SECONDS)
    what = f"{resource.group}/{resource.version}, Resource={resource.plural}"
    failure = ContentRemainingError(f"unexpected items still remain in namespace: {namespace} for gvr: {what}")
    return RemainingContent(resource, objects, failure=failure)


def estimate_grace_seconds(pods: Iterable[Pod], deleted_at: datetime, now: datetime) -> int:
    """Return the longest grace period of the pods; 0 if it has already passed."""
    graces = (one.spec.termination_grace_period_seconds or 0 for one in pods if not is_terminal(one))
    longest = max(graces, default=0)
    return 0 if (now - deleted_at).total_seconds() >= longest else longest


def _is_pods(resource: Resource) -> bool:
    return (resource.group, resource.plural) == ("", "pods")
