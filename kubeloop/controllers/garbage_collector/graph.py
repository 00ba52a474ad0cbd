# SPDX-License-Identifier: Apache-2.0
"""Graph of ownership by UID: one node per object, updated by informers; it schedules the objects to examine.

informers ── observe, remove ──▶ Graph ── examine, orphan ──▶ queues
lookups ──── vanished ───────────▶

An owner that is known only from its dependents has a virtual node, which is not observed until an informer sees it.
No I/O here; every step takes time in proportion to the references involved.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol

from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference
from kubeloop.controllers.garbage_collector.identity import (
    ObjectIdentity,
    alternative_identity,
    is_reachable,
    owner_identity,
    owner_reference_matches_coordinates,
    partition_dependents,
)
from kubeloop.runtime.causes.cause import Origins

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
# Number of absent owners remembered. Their UIDs never return, so this only bounds memory; upstream keeps 500.
MAX_ABSENT = 20_000


class GraphNode:
    """An object, its owners and its dependents.

    Invariant: every owner of a node that is in the graph too has the node among its dependents, and among its blockers
    if one of the references says so. This also holds for an owner that returns: a lookup with wrong coordinates removes
    an owner that exists, and its dependents may correct their references before it is observed.
    """

    __slots__ = (
        "being_deleted",
        "blockers",
        "deleting_dependents",
        "dependents",
        "identity",
        "observed",
        "orphaning",
        "owners",
        "tries",
    )

    def __init__(self, identity: ObjectIdentity, *, observed: bool) -> None:
        self.identity = identity
        self.observed = observed
        self.owners: tuple[OwnerReference, ...] = ()
        self.dependents: dict[str, GraphNode] = {}
        self.blockers: set[str] = set()  # UIDs of dependents that block its deletion
        self.being_deleted = False
        self.deleting_dependents = False
        self.orphaning = False
        self.tries = 0  # number of attempts while it was unobserved or of an unknown kind


class GraphWorkQueues(Protocol):
    """Receiver of the work that a graph schedules."""

    def attempt_to_delete(self, node: GraphNode, origins: Origins = ()) -> None:
        """Check if the object must be deleted or its references removed."""

    def attempt_to_delete_later(self, node: GraphNode) -> None:
        """Check the object after a delay."""

    def attempt_to_orphan(self, node: GraphNode, origins: Origins = ()) -> None:
        """Remove the object's references from its dependents."""

    def report_invalid_namespace(self, dependent: GraphNode, reference: OwnerReference) -> None:
        """Report a reference to an owner in another namespace."""


class AbsentOwnerCache:
    """LRU cache of owners that are gone for good."""

    def __init__(self, room: int = MAX_ABSENT) -> None:
        self._room = room
        self._known: OrderedDict[ObjectIdentity, None] = OrderedDict()

    def add(self, identity: ObjectIdentity) -> None:
        """Add an owner, and evict the least recently used one if necessary."""
        self._known[identity] = None
        self._known.move_to_end(identity)
        if len(self._known) > self._room:
            self._known.popitem(last=False)

    def __contains__(self, identity: ObjectIdentity) -> bool:
        if identity not in self._known:
            return False
        self._known.move_to_end(identity)
        return True


class OwnershipGraph:
    """All nodes. Scheduled work may be repeated or needless, but missing work would leave garbage."""

    def __init__(self, todo: GraphWorkQueues, absent: AbsentOwnerCache) -> None:
        self._todo = todo
        self._absent = absent
        self._nodes: dict[str, GraphNode] = {}
        self._removed: dict[str, GraphNode] = {}  # by UID, as long as dependents in the graph refer to them

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, uid: str) -> GraphNode | None:
        """Return the node of a UID."""
        return self._nodes.get(uid)

    def clear(self) -> None:
        """Remove all nodes."""
        self._nodes.clear()
        self._removed.clear()

    # Observations

    def observe(self, identity: ObjectIdentity, meta: ObjectMeta, origins: Origins = ()) -> None:
        """Record that an object exists with this metadata."""
        node = self._nodes.get(identity.uid)
        if node is None:
            node = self._add(identity, observed=True)
        elif not node.observed:
            self._mark_observed(node, identity, origins)
        if node.owners != meta.owner_references:
            self._relink(node, meta.owner_references, origins)
        self._note_deletion(node, meta, origins)

    def remove(self, identity: ObjectIdentity, origins: Origins = ()) -> None:
        """Record that an object was deleted."""
        node = self._nodes.get(identity.uid)
        if node is not None:
            self._remove_node(node, identity, origins)

    def mark_unobserved(self, uid: str) -> None:
        """Mark an object as not observed because its kind is no longer watched.

        If it has dependents, it is examined to find out if it still exists.
        """
        node = self._nodes.get(uid)
        if node is None:
            return
        node.observed = False
        if node.dependents:
            self._todo.attempt_to_delete(node)
        else:
            self._drop(node)

    def handle_absent(self, identity: ObjectIdentity) -> None:
        """Record that a lookup found no such object; inconclusive if its coordinates are in doubt."""
        node = self._nodes.get(identity.uid)
        if node is None:
            return
        matching, others = partition_dependents(node.dependents.values(), identity)
        if node.identity == identity if node.observed else not others:
            self._remove_node(node, identity)
            return
        if matching:
            self._absent.add(identity)
            for dependent in matching:
                self._todo.attempt_to_delete(dependent)
        if not node.observed and node.identity == identity:
            self._try_alternative_identity(node, others)

    # Internal

    def _add(self, identity: ObjectIdentity, *, observed: bool) -> GraphNode:
        """Add a node, with the dependents of a removed node that had the same UID."""
        node = self._nodes[identity.uid] = GraphNode(identity, observed=observed)
        removed = self._removed.pop(identity.uid, None)
        if removed is not None:
            node.dependents, node.blockers = removed.dependents, removed.blockers
        return node

    def _owner(self, uid: str) -> GraphNode | None:
        """Return the node that keeps the links of an owner, in the graph or removed."""
        return self._nodes.get(uid) or self._removed.get(uid)

    def _mark_observed(self, node: GraphNode, identity: ObjectIdentity, origins: Origins) -> None:
        """Mark an owner as observed; dependents that named other coordinates are examined again."""
        node.observed, node.tries = True, 0
        if node.identity == identity:
            return
        node.identity = identity
        for dependent in partition_dependents(node.dependents.values(), identity)[1]:
            if not is_reachable(identity, dependent.identity.namespace):
                self._report(dependent, identity.uid)
            self._todo.attempt_to_delete(dependent, origins)

    def _try_alternative_identity(self, node: GraphNode, others: Iterable[GraphNode]) -> None:
        name = alternative_identity(others, node.identity)
        if name is not None:
            node.identity = name
            self._todo.attempt_to_delete_later(node)

    def _relink(self, node: GraphNode, references: tuple[OwnerReference, ...], origins: Origins) -> None:
        before = {one.uid: one for one in node.owners}
        after = {one.uid: one for one in references}
        own = node.identity.uid  # a reference to itself never blocks
        blocking = {one.uid for one in references if one.block_owner_deletion and one.uid != own}
        node.owners = references
        for uid, old in before.items():
            if uid not in after:
                self._detach(uid, node, origins)
                continue
            self._change(uid, node, uid in blocking, origins)
            if not owner_reference_matches_coordinates(after[uid], owner_identity(old, "")):
                self._todo.attempt_to_delete(node, origins)
        added = [one for one in references if one.uid not in before]
        if added:
            self._link(node, added, blocking, origins)

    def _link(self, node: GraphNode, added: Iterable[OwnerReference], blocking: set[str], origins: Origins) -> None:
        doubtful = False
        for reference in added:
            owner = self._nodes.get(reference.uid)
            if owner is None:
                owner = self._add(owner_identity(reference, node.identity.namespace), observed=False)
                self._todo.attempt_to_delete(owner, origins)
            else:
                doubtful = (
                    doubtful or owner.deleting_dependents or self._has_mismatched_coordinates(node, reference, owner)
                )
            owner.dependents[node.identity.uid] = node
            if reference.uid in blocking:
                owner.blockers.add(node.identity.uid)
        if doubtful:
            self._todo.attempt_to_delete(node, origins)

    def _has_mismatched_coordinates(self, node: GraphNode, reference: OwnerReference, owner: GraphNode) -> bool:
        """Return True if the reference may not mean the owner known under its UID."""
        namespace = node.identity.namespace
        if not is_reachable(owner.identity, namespace):
            if owner.observed:
                self._report(node, reference.uid)
            return True
        if not owner_reference_matches_coordinates(reference, owner.identity):
            return True
        # A cluster-scoped dependent created this node, but the owner's kind may be namespaced.
        return not owner.observed and owner.identity.namespace != namespace

    def _report(self, dependent: GraphNode, uid: str) -> None:
        for reference in dependent.owners:
            if reference.uid == uid:
                self._todo.report_invalid_namespace(dependent, reference)
                return

    def _change(self, owner_uid: str, node: GraphNode, blocks: bool, origins: Origins) -> None:
        owner = self._owner(owner_uid)
        if owner is None:
            return
        if blocks:
            owner.blockers.add(node.identity.uid)
        else:
            self._unblock(owner, node, origins)

    def _detach(self, owner_uid: str, node: GraphNode, origins: Origins) -> None:
        owner = self._owner(owner_uid)
        if owner is None:
            return
        owner.dependents.pop(node.identity.uid, None)
        self._unblock(owner, node, origins)
        if owner.dependents:
            return
        if self._removed.pop(owner_uid, None) is None and not owner.observed:
            self._drop(owner)  # no longer referenced

    def _unblock(self, owner: GraphNode, node: GraphNode, origins: Origins) -> None:
        if node.identity.uid in owner.blockers:
            owner.blockers.discard(node.identity.uid)
            if owner.deleting_dependents and not owner.blockers:
                self._todo.attempt_to_delete(owner, origins)

    def _note_deletion(self, node: GraphNode, meta: ObjectMeta, origins: Origins) -> None:
        if meta.deletion_timestamp is None:
            return
        node.being_deleted = True
        was_orphaning, was_deleting = node.orphaning, node.deleting_dependents
        node.orphaning = ORPHAN in meta.finalizers
        node.deleting_dependents = FOREGROUND in meta.finalizers and not node.orphaning
        if node.orphaning and not was_orphaning:
            self._todo.attempt_to_orphan(node, origins)
        if node.deleting_dependents and not was_deleting:
            for dependent in node.dependents.values():
                self._todo.attempt_to_delete(dependent, origins)
            self._todo.attempt_to_delete(node, origins)

    def _remove_node(self, node: GraphNode, identity: ObjectIdentity, origins: Origins = ()) -> None:
        """Remove the node of a deleted object; examine its dependents and the owners that waited for it."""
        self._drop(node, origins)
        node.deleting_dependents = False
        node.dependents.pop(node.identity.uid, None)  # an object may refer to itself
        if node.dependents:
            self._absent.add(identity)
            self._removed[node.identity.uid] = node
            for dependent in node.dependents.values():
                self._todo.attempt_to_delete(dependent, origins)

    def _drop(self, node: GraphNode, origins: Origins = ()) -> None:
        del self._nodes[node.identity.uid]
        for uid in dict.fromkeys(one.uid for one in node.owners):
            self._detach(uid, node, origins)
