# SPDX-License-Identifier: Apache-2.0
"""Examines one object at a time: decides by its owners if it is kept, and acts otherwise."""

from __future__ import annotations

from collections.abc import Iterable

from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.api.kinds import Resource
from kubeloop.controllers.garbage_collector.access import NamespacedOwnerError, ObjectAccess, RestMappingError
from kubeloop.controllers.garbage_collector.decisions import Owners, OwnerState, propagation_policy
from kubeloop.controllers.garbage_collector.graph import FOREGROUND, ORPHAN, AbsentOwnerCache, GraphNode, OwnershipGraph
from kubeloop.controllers.garbage_collector.identity import (
    ObjectIdentity,
    is_reachable,
    owner_identity,
    owner_reference_matches_coordinates,
)
from kubeloop.controllers.garbage_collector.monitors import GraphMonitors
from kubeloop.runtime.controller import Result

# Attempts on an object that changes meanwhile before it is retried later.
TRIES = 4
# First and longest delay in seconds before an unseen owner is looked up again.
FIRST_WAIT = 0.005
LONGEST_WAIT = 1000.0
# Seconds before finalizers are checked again that must stay while objects of new kinds are unknown.
SETTLING_REQUEUE = 0.5


class ObjectCollector:
    """Deletes objects without a live owner.

    The state of informers suffices for a deletion, because it requires the version that was seen. The server is asked
    only about owners that no informer has seen, and about objects that have changed meanwhile.
    """

    def __init__(
        self, access: ObjectAccess, graph: OwnershipGraph, monitors: GraphMonitors, absent: AbsentOwnerCache
    ) -> None:
        self._access = access
        self._graph = graph
        self._monitors = monitors
        self._absent = absent
        self.waiting_for_kinds: set[ObjectIdentity] = (
            set()
        )  # objects that could not be evaluated because a kind is unknown

    async def reconcile(self, key: ObjectIdentity) -> Result | None:
        """Examine one object."""
        node = self._graph.get(key.uid)
        if node is None or (node.being_deleted and not node.deleting_dependents):
            return None
        try:
            return await self._attempt_to_delete(node)
        except NamespacedOwnerError:
            return None  # a retry cannot help
        except RestMappingError:
            self.waiting_for_kinds.add(key)
            return _later(node)

    async def _attempt_to_delete(self, node: GraphNode) -> Result | None:
        seen = self._monitors.metadata_of(node) if node.observed else None
        for attempt in range(TRIES):
            if seen is None:
                identity = node.identity
                seen = await self._access.get(identity)
                if seen is None:
                    self._graph.handle_absent(identity)
                    return None
            try:
                return await self._process(node, seen)
            except Conflict:
                if attempt + 1 == TRIES:
                    raise
                seen = None
        return None

    async def _process(self, node: GraphNode, seen: ObjectMeta) -> Result | None:
        """Act on an object in the state that was seen; raises Conflict if it has changed."""
        if seen.deletion_timestamp is not None:
            if self._may_finish(node, seen):
                return await self._finish(node, seen)
        elif seen.owner_references:
            owners = await self._owners_of(node.identity, seen.owner_references)
            if not owners.solid:
                await self._delete(node, seen, owners)
            elif released := owners.removable_uids():
                await self._access.remove_owner_references(node.identity, seen, released)
        return None if node.observed else _later(node)

    def _may_finish(self, node: GraphNode, seen: ObjectMeta) -> bool:
        """Return True if an object in foreground deletion has no blocking dependents left."""
        return FOREGROUND in seen.finalizers and ORPHAN not in seen.finalizers and not node.blockers

    async def _finish(self, node: GraphNode, seen: ObjectMeta) -> Result | None:
        if self._monitors.is_settling:
            return Result(requeue_after=SETTLING_REQUEUE)
        try:
            await self._access.remove_finalizer(node.identity, seen, FOREGROUND)
        except NotFound:
            return None  # its deletion will be observed
        return None

    async def _delete(self, node: GraphNode, seen: ObjectMeta, owners: Owners) -> None:
        policy = propagation_policy(seen, owners, bool(node.dependents))
        if owners.waiting and _may_close_a_circle(node, seen):
            seen = await self._access.unblock_owner_references(node.identity, seen)
        if await self._access.delete(node.identity, seen, policy):
            self._graph.handle_absent(node.identity)

    # Owners

    async def _owners_of(self, item: ObjectIdentity, references: Iterable[OwnerReference]) -> Owners:
        owners = Owners()
        for reference in references:
            owners.add(
                reference, self._cached_owner_state(item, reference) or await self._lookup_owner_state(item, reference)
            )
        return owners

    def _cached_owner_state(self, item: ObjectIdentity, reference: OwnerReference) -> OwnerState | None:
        """Return the known state of an owner without a request; if it is outdated, an event will follow."""
        if owner_identity(reference, "") in self._absent or owner_identity(reference, item.namespace) in self._absent:
            return OwnerState.DANGLING
        owner = self._graph.get(reference.uid)
        if owner is None or not owner.observed:
            return None
        if not owner_reference_matches_coordinates(reference, owner.identity) or not is_reachable(
            owner.identity, item.namespace
        ):
            return None
        return OwnerState.WAITING if owner.deleting_dependents else OwnerState.SOLID

    async def _lookup_owner_state(self, item: ObjectIdentity, reference: OwnerReference) -> OwnerState:
        owner = self._owner(item, reference)
        found = await self._access.get(owner)
        if found is None:
            self._absent.add(owner)
            return OwnerState.DANGLING
        waits = found.deletion_timestamp is not None and FOREGROUND in found.finalizers
        return OwnerState.WAITING if waits else OwnerState.SOLID

    def _owner(self, item: ObjectIdentity, reference: OwnerReference) -> ObjectIdentity:
        """Return the owner's identity: in the item's namespace, or cluster-scoped."""
        owner = owner_identity(reference, item.namespace)
        resource: Resource = self._access.resource_of(owner)
        return owner if resource.namespaced else owner._replace(namespace="")


def _may_close_a_circle(node: GraphNode, seen: ObjectMeta) -> bool:
    """Return True if the object may be part of a cycle of foreground deletions."""
    blocks = any(one.block_owner_deletion for one in seen.owner_references)
    return blocks and any(one.deleting_dependents for one in node.dependents.values())


def _later(node: GraphNode) -> Result:
    """Retry with a growing delay."""
    delay = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(node.tries, 32))
    node.tries += 1
    return Result(requeue_after=delay)
