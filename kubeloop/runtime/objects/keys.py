"""What a queue holds: the name of an object, never the object or what happened to it."""

from __future__ import annotations

from typing import Any, NamedTuple


class ObjectKey(NamedTuple):
    """Where an object is found among its kind; the namespace is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


_new = tuple.__new__  # keys are made all the time, and a named tuple's own way to be made takes twice as long


def key_of(obj: Any) -> ObjectKey:
    """The key of an object."""
    meta = obj.metadata
    return _new(ObjectKey, (meta.namespace, meta.name))
