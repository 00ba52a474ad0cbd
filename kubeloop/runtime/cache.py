"""Objects by key and by index: the local copy of a collection that every loop reads from.

Objects are shared and immutable; what changes is which object a key stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kubeloop.api.owners import controller_of
from kubeloop.runtime.grouping import Alike, Grouping, PlaceFunction
from kubeloop.runtime.keys import ObjectKey, key_of

# The values under which an index lists an object.
IndexFunction = Callable[[Any], Iterable[str]]
_Buckets = dict[str, dict[ObjectKey, Any]]


def namespace_of(obj: Any) -> tuple[str, ...]:
    """Index by namespace; every cache has it."""
    return (obj.metadata.namespace,)


def owner_uids_of(obj: Any) -> tuple[str, ...]:
    """Index by the uid of every owner."""
    return tuple(one.uid for one in obj.metadata.owner_references)


def controller_uid_of(obj: Any) -> tuple[str, ...]:
    """Index by the uid of the one owner that controls the object."""
    controller = controller_of(obj.metadata.owner_references)
    return (controller.uid,) if controller is not None else ()


def orphan_namespace_of(obj: Any) -> tuple[str, ...]:
    """Index what no owner controls by namespace: what a new owner there may adopt."""
    return () if controller_of(obj.metadata.owner_references) is not None else (obj.metadata.namespace,)


def node_name_of(pod: Any) -> tuple[str, ...]:
    """Index pods by the node that they are bound to."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()


NAMESPACE = "namespace"
OWNER = "owner"
CONTROLLER = "controller"
ORPHANS = "orphans"
NODE = "node"


class Cache:
    """Objects of one kind.

    Always true: an index lists exactly those objects that are stored, under exactly the values that its function
    gives for them; no bucket is empty.
    """

    def __init__(self) -> None:
        self._objects: dict[ObjectKey, Any] = {}
        self._functions: dict[str, IndexFunction] = {}
        self._indexes: dict[str, _Buckets] = {}
        self._groupings: dict[str, Grouping] = {}
        self.add_indexer(NAMESPACE, namespace_of)

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[Any]:
        return iter(self._objects.values())

    def keys(self) -> Iterable[ObjectKey]:
        return self._objects.keys()

    def get(self, key: tuple[str, str]) -> Any | None:
        """The object of a (namespace, name)."""
        return self._objects.get(key)  # type: ignore[call-overload]  # a plain tuple equals the key

    def list(self, namespace: str = "") -> Sequence[Any]:
        """All objects, or those of a namespace."""
        return self.by_index(NAMESPACE, namespace) if namespace else tuple(self._objects.values())

    def by_index(self, index: str, value: str) -> Sequence[Any]:
        """The objects under a value; raises KeyError for an index that was never added."""
        return tuple(self._indexes[index].get(value, {}).values())

    def index_values(self, index: str) -> Sequence[str]:
        """All values that an index has objects for."""
        return tuple(self._indexes[index])

    def add_indexer(self, index: str, function: IndexFunction) -> None:
        """Index what is there and what comes. The same index may be asked for by many who share a cache."""
        known = self._functions.get(index)
        if known is function:
            return
        if known is not None:
            raise ValueError(f"there is another index called {index} already")
        buckets: _Buckets = {}
        for key, obj in self._objects.items():
            _file(buckets, function(obj), key, obj)
        self._functions[index], self._indexes[index] = function, buckets

    def alike(self, grouping: str, group: str) -> Alike:
        """A group's objects by their looks; raises KeyError for a grouping that was never added."""
        return self._groupings[grouping].of(group)

    def add_grouping(self, name: str, function: PlaceFunction) -> None:
        """Keep alike objects together, those that are there and those that come. Many may ask for the same."""
        known = self._groupings.get(name)
        if known is not None and known.function is not function:
            raise ValueError(f"there is another grouping called {name} already")
        if known is None:
            grouping = Grouping(function)
            for key, obj in self._objects.items():
                grouping.put(key, obj, function(obj))
            self._groupings[name] = grouping

    def put(self, obj: Any) -> Any | None:
        """Store an object; returns the one it takes the place of."""
        key = key_of(obj)
        old = self._objects.get(key)
        # All values first: an index function that raises must leave everything as it was.
        moves = [
            (self._indexes[index], () if old is None else tuple(function(old)), tuple(function(obj)))
            for index, function in self._functions.items()
        ]
        places = [(one, one.function(obj)) for one in self._groupings.values()]
        self._objects[key] = obj
        for grouping, place in places:
            grouping.put(key, obj, place)
        for buckets, before, after in moves:
            if before and before != after:
                _unfile(buckets, before, key)
            _file(buckets, after, key, obj)
        return old

    def remove(self, key: ObjectKey) -> Any | None:
        """Drop an object; returns it."""
        old = self._objects.pop(key, None)
        if old is not None:
            for index, function in self._functions.items():
                _unfile(self._indexes[index], function(old), key)
            for grouping in self._groupings.values():
                grouping.remove(key)
        return old


def _file(buckets: _Buckets, values: Iterable[str], key: ObjectKey, obj: Any) -> None:
    for value in values:
        buckets.setdefault(value, {})[key] = obj


def _unfile(buckets: _Buckets, values: Iterable[str], key: ObjectKey) -> None:
    for value in values:
        bucket = buckets.get(value)
        if bucket is not None:
            bucket.pop(key, None)
            if not bucket:
                del buckets[value]
