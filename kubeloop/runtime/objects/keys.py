# SPDX-License-Identifier: Apache-2.0
"""Keys of objects: queues hold only the name of an object, never the object or the event."""

from __future__ import annotations

from typing import Any, NamedTuple


class ObjectKey(NamedTuple):
    """Namespace and name of an object; the namespace is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


_new = tuple.__new__  # keys are created often, and NamedTuple's constructor takes twice as long


def key_of(obj: Any) -> ObjectKey:
    """Return the key of an object."""
    meta = obj.metadata
    return _new(ObjectKey, (meta.namespace, meta.name))
