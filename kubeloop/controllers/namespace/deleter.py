# SPDX-License-Identifier: Apache-2.0
"""Empties a namespace and finalizes it: observe, delete, report, and finalize when nothing is left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from kubeloop.api import codec
from kubeloop.api.errors import ApiError, Conflict, NotFound
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.core_v1 import Namespace, NamespaceSpec
from kubeloop.api.kinds import Resource
from kubeloop.api.scalars.times import format_time, parse_time
from kubeloop.api.scalars.wire import Time
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.client.discovery.served_resources import ServedResources, discover_resources
from kubeloop.client.errors import ClientError
from kubeloop.clock import Clock
from kubeloop.controllers.namespace.conditions import (
    DeletionFindings,
    changed_conditions,
    conditions_after,
    discovery_failure,
    parsing_failure,
    resource_name,
)
from kubeloop.controllers.namespace.content import ContentRemainingError, NamespaceContent, RemainingContent
from kubeloop.controllers.namespace.remaining_content import RemainingContentTracker
from kubeloop.runtime.controller import Result
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate

FINALIZER = "kubernetes"  # this controller's finalizer in the spec
CONCURRENCY = 16  # kinds that are emptied concurrently
TRIES = 5  # attempts to finalize a namespace that others write too
# Seconds for which other API servers may admit objects because they don't know of the deletion.
PROPAGATION_SECONDS = 5.0
# Seconds until remaining objects that no informer has seen are checked.
UNCACHED_RECHECK_SECONDS = 1.0
# Label of the lease that each API server keeps in kube-system.
_SERVERS = "apiserver.kubernetes.io/identity=kube-apiserver"
_NAMESPACES = resource_of_class(Namespace)


class NamespacedResourcesDeleter:
    """Deletes the content of namespaces by name."""

    def __init__(
        self,
        client: Client,
        content: NamespaceContent,
        status: PatchOrUpdate,
        remains: RemainingContentTracker,
        clock: Clock,
    ) -> None:
        self._client = client
        self._content = content
        self._status = status
        self._remains = remains
        self._clock = clock

    async def reconcile(self, name: str) -> Result | None:
        """Continue the deletion of one namespace."""
        try:
            return await self._delete(name)
        except NotFound:
            self._remains.forget(name)
            return None  # already gone

    async def _delete(self, name: str) -> Result | None:
        namespace: Namespace = await self._client.get(Namespace, name)
        if namespace.metadata.deletion_timestamp is None:
            return None
        if namespace.status.phase != "Terminating":
            patch = _status_patch(namespace, phase="Terminating")
            namespace = await self._status.patch_status(_NAMESPACES, namespace, patch)
        if not namespace.spec.finalizers:
            return None
        left, findings = await self._empty(namespace)
        await self._report(namespace, findings)
        if findings.errors:
            raise ExceptionGroup(f"failed to delete all content of namespace {name}", findings.errors)
        if findings.seconds:
            return self._await(name, left, findings.seconds)
        return await self._finalize(namespace)

    # Emptying

    async def _empty(self, namespace: Namespace) -> tuple[list[RemainingContent], DeletionFindings]:
        findings = DeletionFindings()
        resources = await self._resources(findings)
        pods = [one for one in resources if (one.group, one.version, one.plural) == ("", "v1", "pods")]
        left = await self._remove(pods, namespace, findings)
        if not any(one.objects for one in left):  # pods may need all other objects until they end
            left += await self._remove([one for one in resources if one not in pods], namespace, findings)
        return left, findings

    async def _resources(self, findings: DeletionFindings) -> list[Resource]:
        """Return the namespaced kinds whose objects can be deleted, as far as discovery succeeds."""
        try:
            served: ServedResources = await discover_resources(self._client.document)
        except (ApiError, ClientError) as error:
            findings.discovery = str(error)
            return []
        findings.discovery = discovery_failure(served)
        findings.parsing = parsing_failure(served)
        return [
            one
            for one in served.preferred_resources()
            if one.namespaced and "delete" in one.verbs and "/" not in one.group
        ]

    async def _remove(
        self, resources: Iterable[Resource], namespace: Namespace, findings: DeletionFindings
    ) -> list[RemainingContent]:
        limit = asyncio.Semaphore(CONCURRENCY)
        name, deleted_at = namespace.metadata.name, _deleted_at(namespace)

        async def remove(resource: Resource) -> RemainingContent:
            async with limit:
                return await self._content.remove(resource, name, deleted_at)

        left = await asyncio.gather(*map(remove, resources))
        # Some objects are served as several kinds, and were already being deleted as another one.
        left = [await remove(one.resource) if isinstance(one.failure, ContentRemainingError) else one for one in left]
        for one in left:
            _note(findings, one)
        return left

    # Reporting

    async def _report(self, namespace: Namespace, findings: DeletionFindings) -> None:
        before = namespace.status.conditions
        after = conditions_after(before, findings, Time(format_time(self._clock.now())))
        news = changed_conditions(before, after)
        if not news:
            return
        conditions = [codec.to_plain(one) for one in news]
        try:
            await self._status.patch_status(_NAMESPACES, namespace, _status_patch(namespace, conditions=conditions))
        except Conflict:
            return  # reported the next time; it must not delay the rest

    def _await(self, name: str, left: Sequence[RemainingContent], seconds: int) -> Result:
        remaining = [(one.resource, meta) for one in left for meta in one.objects]
        seen = self._remains.wait_for_deletion(name, remaining)
        return Result(requeue_after=seconds // 2 + 1.0 if seen else UNCACHED_RECHECK_SECONDS)

    # Finalizing

    async def _finalize(self, namespace: Namespace) -> Result | None:
        news = await self._news_seconds(namespace)
        if news > 0:
            return Result(requeue_after=news)
        self._remains.forget(namespace.metadata.name)
        for attempt in range(TRIES):
            kept = tuple(one for one in namespace.spec.finalizers if one != FINALIZER)
            spec: NamespaceSpec = msgspec.structs.replace(namespace.spec, finalizers=kept)
            try:
                # The subresource takes no patches.
                await self._client.update(msgspec.structs.replace(namespace, spec=spec), subresource="finalize")
                return None
            except Conflict:
                if attempt + 1 == TRIES:
                    raise
                fresh: Namespace = await self._client.get(Namespace, namespace.metadata.name)
                if fresh.metadata.uid != namespace.metadata.uid:
                    return None
                namespace = fresh
        return None

    async def _news_seconds(self, namespace: Namespace) -> float:
        """Return the seconds until every API server knows of the deletion; 0 if there is only one server."""
        left = PROPAGATION_SECONDS - (self._clock.now() - _deleted_at(namespace)).total_seconds()
        if left <= 0:
            return 0.0
        try:
            servers = await self._client.list(Lease, "kube-system", labels=_SERVERS, metadata_only=True)
        except ApiError:
            return min(left, PROPAGATION_SECONDS)  # unknown
        return min(left, PROPAGATION_SECONDS) if len(servers.items) > 1 else 0.0


def _note(findings: DeletionFindings, left: RemainingContent) -> None:
    if left.failure is not None:
        findings.failures.append(left.failure)
    if left.objects:
        findings.remaining[resource_name(left.resource)] = len(left.objects)
        findings.finalizers += left.finalizers()
    findings.seconds = max(findings.seconds, left.seconds)


def _deleted_at(namespace: Namespace) -> datetime:
    moment = namespace.metadata.deletion_timestamp
    assert moment is not None  # others are not reconciled
    return parse_time(moment)


def _status_patch(namespace: Namespace, **status: object) -> dict[str, dict[str, object]]:
    return {"metadata": {"uid": namespace.metadata.uid}, "status": status}
