"""Examines one object at a time: decides by its owners if it is kept, and acts otherwise."""

from __future__ import annotations

from collections.abc import Iterable

from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.api.kinds import Resource
from kubeloop.controllers.garbage_collector.access import Access, NoNamespace, UnknownKind
from kubeloop.controllers.garbage_collector.decisions import Owners, Standing, policy_of
from kubeloop.controllers.garbage_collector.graph import FOREGROUND, ORPHAN, AbsentOwners, Graph, Node
from kubeloop.controllers.garbage_collector.identity import Identity, is_reachable, referred, same_coordinates
from kubeloop.controllers.garbage_collector.monitors import Monitors
from kubeloop.runtime.controller import Result

# Attempts on an object that changes meanwhile before it is retried later.
TRIES = 4
# First and longest delay in seconds before an unseen owner is looked up again.
FIRST_WAIT = 0.005
LONGEST_WAIT = 1000.0
# Seconds before finalizers are checked again that must stay while objects of new kinds are unknown.
UNTIL_SETTLED = 0.5


class Collector:
    """Deletes objects without a live owner.

    The state of informers suffices for a deletion, because it requires the version that was seen. The server is asked
    only about owners that no informer has seen, and about objects that have changed meanwhile.
    """

    def __init__(self, access: Access, graph: Graph, monitors: Monitors, absent: AbsentOwners) -> None:
        self._access = access
        self._graph = graph
        self._monitors = monitors
        self._absent = absent
        self.waiting_for_kinds: set[Identity] = set()  # objects that could not be evaluated because a kind is unknown

    async def reconcile(self, key: Identity) -> Result | None:
        """Examine one object."""
        node = self._graph.get(key.uid)
        if node is None or (node.being_deleted and not node.deleting_dependents):
            return None
        try:
            return await self._look_at(node)
        except NoNamespace:
            return None  # a retry cannot help
        except UnknownKind:
            self.waiting_for_kinds.add(key)
            return _later(node)

    async def _look_at(self, node: Node) -> Result | None:
        seen = self._monitors.metadata_of(node) if node.observed else None
        for attempt in range(TRIES):
            if seen is None:
                identity = node.identity
                seen = await self._access.get(identity)
                if seen is None:
                    self._graph.vanished(identity)
                    return None
            try:
                return await self._settle(node, seen)
            except Conflict:
                if attempt + 1 == TRIES:
                    raise
                seen = None
        return None

    async def _settle(self, node: Node, seen: ObjectMeta) -> Result | None:
        """Act on an object in the state that was seen; raises Conflict if it has changed."""
        if seen.deletion_timestamp is not None:
            if self._may_finish(node, seen):
                return await self._finish(node, seen)
        elif seen.owner_references:
            owners = await self._owners_of(node.identity, seen.owner_references)
            if not owners.solid:
                await self._delete(node, seen, owners)
            elif released := owners.let_go():
                await self._access.release(node.identity, seen, released)
        return None if node.observed else _later(node)

    def _may_finish(self, node: Node, seen: ObjectMeta) -> bool:
        """Return True if an object in foreground deletion has no blocking dependents left."""
        return FOREGROUND in seen.finalizers and ORPHAN not in seen.finalizers and not node.blockers

    async def _finish(self, node: Node, seen: ObjectMeta) -> Result | None:
        if self._monitors.settling:
            return Result(requeue_after=UNTIL_SETTLED)
        try:
            await self._access.remove_finalizer(node.identity, seen, FOREGROUND)
        except NotFound:
            return None  # its deletion will be observed
        return None

    async def _delete(self, node: Node, seen: ObjectMeta, owners: Owners) -> None:
        policy = policy_of(seen, owners, bool(node.dependents))
        if owners.waiting and _may_close_a_circle(node, seen):
            seen = await self._access.unblock(node.identity, seen)
        if await self._access.delete(node.identity, seen, policy):
            self._graph.vanished(node.identity)

    # Owners

    async def _owners_of(self, item: Identity, references: Iterable[OwnerReference]) -> Owners:
        owners = Owners()
        for reference in references:
            owners.put(reference, self._known(item, reference) or await self._looked_up(item, reference))
        return owners

    def _known(self, item: Identity, reference: OwnerReference) -> Standing | None:
        """Return the known state of an owner without a request; if it is outdated, an event will follow."""
        if referred(reference, "") in self._absent or referred(reference, item.namespace) in self._absent:
            return Standing.DANGLING
        owner = self._graph.get(reference.uid)
        if owner is None or not owner.observed:
            return None
        if not same_coordinates(reference, owner.identity) or not is_reachable(owner.identity, item.namespace):
            return None
        return Standing.WAITING if owner.deleting_dependents else Standing.SOLID

    async def _looked_up(self, item: Identity, reference: OwnerReference) -> Standing:
        owner = self._owner(item, reference)
        found = await self._access.get(owner)
        if found is None:
            self._absent.add(owner)
            return Standing.DANGLING
        waits = found.deletion_timestamp is not None and FOREGROUND in found.finalizers
        return Standing.WAITING if waits else Standing.SOLID

    def _owner(self, item: Identity, reference: OwnerReference) -> Identity:
        """Return the owner's identity: in the item's namespace, or cluster-scoped."""
        owner = referred(reference, item.namespace)
        resource: Resource = self._access.resource_of(owner)
        return owner if resource.namespaced else owner._replace(namespace="")


def _may_close_a_circle(node: Node, seen: ObjectMeta) -> bool:
    """Return True if the object may be part of a cycle of foreground deletions."""
    blocks = any(one.block_owner_deletion for one in seen.owner_references)
    return blocks and any(one.deleting_dependents for one in node.dependents.values())


def _later(node: Node) -> Result:
    """Retry with a growing delay."""
    delay = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(node.tries, 32))
    node.tries += 1
    return Result(requeue_after=delay)
