# SPDX-License-Identifier: Apache-2.0
"""Orphans dependents before their owner is deleted: first all references, then the finalizer."""

from __future__ import annotations

import asyncio

from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.controllers.garbage_collector.access import ObjectAccess
from kubeloop.controllers.garbage_collector.collector import SETTLING_REQUEUE, TRIES
from kubeloop.controllers.garbage_collector.graph import ORPHAN, GraphNode, OwnershipGraph
from kubeloop.controllers.garbage_collector.identity import ObjectIdentity
from kubeloop.controllers.garbage_collector.monitors import GraphMonitors
from kubeloop.runtime.controller import Result

# Number of dependents of one owner that are written concurrently.
CONCURRENCY = 32


class Orphaner:
    """Orphans dependents by the identity of their owner."""

    def __init__(self, access: ObjectAccess, graph: OwnershipGraph, monitors: GraphMonitors) -> None:
        self._access = access
        self._graph = graph
        self._monitors = monitors

    async def reconcile(self, key: ObjectIdentity) -> Result | None:
        """Orphan the dependents of one owner, unless a kind is still being listed."""
        owner = self._graph.get(key.uid)
        if owner is None or not owner.orphaning:
            return None
        if self._monitors.is_settling:  # dependents of a new kind may not be known yet, and would be missed
            return Result(requeue_after=SETTLING_REQUEUE)
        await self._release_all(owner)
        await self._finish(owner)
        return None

    async def _release_all(self, owner: GraphNode) -> None:
        limit = asyncio.Semaphore(CONCURRENCY)

        async def release(dependent: GraphNode) -> None:
            async with limit:
                await self._release(dependent, owner.identity.uid)

        found = await asyncio.gather(*map(release, list(owner.dependents.values())), return_exceptions=True)
        errors = [one for one in found if isinstance(one, Exception)]
        if errors:
            raise ExceptionGroup(f"failed to orphan dependents of owner {owner.identity}", errors)

    async def _release(self, dependent: GraphNode, owner_uid: str) -> None:
        seen = self._monitors.metadata_of(dependent) or await self._access.get(dependent.identity)
        for attempt in range(TRIES):
            if seen is None or all(one.uid != owner_uid for one in seen.owner_references):
                return
            try:
                await self._access.remove_owner_references(dependent.identity, seen, {owner_uid})
            except NotFound:
                return
            except Conflict:
                if attempt + 1 == TRIES:
                    raise
                seen = await self._access.get(dependent.identity)
            else:
                return

    async def _finish(self, owner: GraphNode) -> None:
        seen: ObjectMeta | None = self._monitors.metadata_of(owner)
        for attempt in range(TRIES):
            if seen is None:
                seen = await self._access.get(owner.identity)
            if seen is None:
                self._graph.handle_absent(owner.identity)
                return
            try:
                await self._access.remove_finalizer(owner.identity, seen, ORPHAN)
            except NotFound:
                return
            except Conflict:
                if attempt + 1 == TRIES:
                    raise
                seen = None
            else:
                return
