# SPDX-License-Identifier: Apache-2.0
"""Indexed store of objects: the local copy of a collection that controllers read from.

Objects are shared and immutable; a change replaces the object of a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from operator import attrgetter
from typing import Any

from kubeloop.api.meta.owner_references import controller_of
from kubeloop.runtime.informer.equivalence_groups import EquivalenceGroups, GroupIndex, GroupKeyFunction
from kubeloop.runtime.objects.keys import ObjectKey, key_of

# The values under which an index lists an object.
IndexFunction = Callable[[Any], Iterable[str]]
IndexedPart = Callable[[Any], Any]
# Keys in the order in which they came: objects change too often to be put into each of their buckets again.
_Buckets = dict[str, dict[ObjectKey, None]]


def depends_on(part: IndexedPart) -> Callable[[IndexFunction], IndexFunction]:
    """Declare that an index function depends on one part only, so that it is skipped while that is unchanged."""

    def declare(function: IndexFunction) -> IndexFunction:
        function.part = part  # type: ignore[attr-defined]  # functions have room for it
        return function

    return declare


_owners_part: IndexedPart = attrgetter("metadata.owner_references")


def namespace_of(obj: Any) -> tuple[str, ...]:
    """Index by namespace; every cache has it."""
    return (obj.metadata.namespace,)


@depends_on(_owners_part)
def owner_uids_of(obj: Any) -> tuple[str, ...]:
    """Index by the uid of every owner."""
    return tuple(one.uid for one in obj.metadata.owner_references)


@depends_on(_owners_part)
def controller_uid_of(obj: Any) -> tuple[str, ...]:
    """Index by the uid of the controlling owner."""
    controller = controller_of(obj.metadata.owner_references)
    return (controller.uid,) if controller is not None else ()


@depends_on(_owners_part)
def orphan_namespace_of(obj: Any) -> tuple[str, ...]:
    """Index objects without a controlling owner by namespace: candidates for adoption."""
    return () if controller_of(obj.metadata.owner_references) is not None else (obj.metadata.namespace,)


@depends_on(attrgetter("spec.node_name"))
def node_name_of(pod: Any) -> tuple[str, ...]:
    """Index pods by the node that they are bound to."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()


NAMESPACE = "namespace"
OWNER = "owner"
CONTROLLER = "controller"
ORPHANS = "orphans"
NODE = "node"


class _Index:
    """Index: keys by value."""

    __slots__ = ("buckets", "function", "part")

    def __init__(self, function: IndexFunction) -> None:
        self.function = function
        self.part: IndexedPart | None = getattr(function, "part", None)
        self.buckets: _Buckets = {}

    def add(self, values: Iterable[str], key: ObjectKey) -> None:
        for value in values:
            self.buckets.setdefault(value, {})[key] = None

    def remove(self, values: Iterable[str], key: ObjectKey) -> None:
        for value in values:
            bucket = self.buckets.get(value)
            if bucket is not None:
                bucket.pop(key, None)
                if not bucket:
                    del self.buckets[value]


_IndexChange = tuple[_Index, tuple[str, ...], tuple[str, ...]]  # from these values to those


class Indexer:
    """Indexed objects of one kind.

    Invariant: an index lists exactly the stored objects, under exactly the values that its function returns for them;
    no bucket is empty.
    """

    def __init__(self) -> None:
        self._objects: dict[ObjectKey, Any] = {}
        self._indexes: dict[str, _Index] = {}
        # All indexes in which an update can move an object, by the part that they depend on (None: any).
        self._by_part: dict[IndexedPart | None, list[_Index]] = {}
        self._group_indexes: dict[str, GroupIndex] = {}
        self.add_indexer(NAMESPACE, namespace_of)

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[Any]:
        return iter(self._objects.values())

    def keys(self) -> Iterable[ObjectKey]:
        """Return all keys."""
        return self._objects.keys()

    def get(self, key: tuple[str, str]) -> Any | None:
        """Return the object of a (namespace, name)."""
        return self._objects.get(key)  # type: ignore[call-overload]  # a plain tuple equals the key

    def list(self, namespace: str = "") -> Sequence[Any]:
        """Return all objects, or those of a namespace."""
        return self.by_index(NAMESPACE, namespace) if namespace else tuple(self._objects.values())

    def by_index(self, index: str, value: str) -> Sequence[Any]:
        """Return the objects under a value; raises KeyError for an unknown index."""
        bucket = self._indexes[index].buckets.get(value)
        return tuple(map(self._objects.__getitem__, bucket)) if bucket else ()

    def index_values(self, index: str) -> Sequence[str]:
        """Return all values that an index has objects for."""
        return tuple(self._indexes[index].buckets)

    def index_function(self, index: str) -> IndexFunction:
        """Return the function of an index; raises KeyError for an unknown index."""
        return self._indexes[index].function

    def add_indexer(self, index: str, function: IndexFunction) -> None:
        """Add an index over present and future objects. Users of a shared cache may add the same one."""
        known = self._indexes.get(index)
        if known is not None and known.function is not function:
            raise ValueError(f"the index {index} exists already")
        if known is None:
            made = _Index(function)
            for key, obj in self._objects.items():
                made.add(function(obj), key)
            self._indexes[index] = made
            if function is not namespace_of:  # an update never changes the namespace
                self._by_part.setdefault(made.part, []).append(made)

    def by_group(self, grouping: str, group: str) -> EquivalenceGroups:
        """Return a group's objects by equivalence class; raises KeyError for an unknown grouping."""
        return self._group_indexes[grouping].groups_of(group)

    def add_group_index(self, name: str, function: GroupKeyFunction) -> None:
        """Add a grouping over present and future objects. Users of a shared cache may add the same one."""
        known = self._group_indexes.get(name)
        if known is not None and known.function is not function:
            raise ValueError(f"the grouping {name} exists already")
        if known is None:
            grouping = GroupIndex(function)
            for key, obj in self._objects.items():
                grouping.put(key, obj, function(obj))
            self._group_indexes[name] = grouping

    def put(self, obj: Any) -> Any | None:
        """Store an object; returns the one it replaces."""
        key = key_of(obj)
        old = self._objects.get(key)
        self.replace(key, old, obj)
        return old

    def replace(self, key: ObjectKey, old: Any | None, obj: Any) -> None:
        """Store an object in place of the present one of its key, which the caller has read."""
        # All values first: an index function that raises must leave everything as it was.
        moves = self._new_values(obj) if old is None else self._index_changes(old, obj)
        places = [(one, one.function(obj)) for one in self._group_indexes.values()] if self._group_indexes else ()
        self._objects[key] = obj
        for grouping, place in places:
            grouping.put(key, obj, place)
        for index, before, after in moves:
            if before:
                index.remove(before, key)
            if after:
                index.add(after, key)

    def _new_values(self, new: Any) -> Sequence[_IndexChange]:
        """Return the indexes that list a new object."""
        return [(one, (), values) for one in self._indexes.values() if (values := tuple(one.function(new)))]

    def _index_changes(self, old: Any, new: Any) -> Sequence[_IndexChange]:
        """Return the indexes in which an object's values change."""
        moves: MutableSequence[_IndexChange] = []
        for part, indexes in self._by_part.items():
            if part is not None and ((before := part(old)) is (after := part(new)) or before == after):
                continue
            for index in indexes:
                was, now = tuple(index.function(old)), tuple(index.function(new))
                if was != now:
                    moves.append((index, was, now))
        return moves

    def remove(self, key: ObjectKey) -> Any | None:
        """Remove an object; returns it."""
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._indexes.values():
                if values := tuple(index.function(old)):
                    index.remove(values, key)
            for grouping in self._group_indexes.values():
                grouping.remove(key)
        return old
