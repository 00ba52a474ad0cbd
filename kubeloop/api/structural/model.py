# SPDX-License-Identifier: Apache-2.0
"""Structural schema of a custom resource, parsed once from its definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

Schema = Mapping[str, Any]

META_FIELDS: Final = frozenset(("apiVersion", "kind", "metadata"))


class Structural:
    """Structural schema of one place: permitted fields, extensions and the default."""

    __slots__ = (
        "additional",
        "default",
        "embedded",
        "has_defaults",
        "has_embedded",
        "has_unique_lists",
        "items",
        "list_keys",
        "list_type",
        "nullable",
        "preserves",
        "properties",
        "source",
    )

    def __init__(self, source: Schema, *, root: bool = False) -> None:
        self.source = source
        self.nullable = bool(source.get("nullable"))
        self.preserves = bool(source.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded = root or bool(source.get("x-kubernetes-embedded-resource"))
        # None if there is no default: an explicit null in a schema means the same.
        self.default: Any = source.get("default")
        self.properties = {name: Structural(one) for name, one in (source.get("properties") or {}).items()}
        self.additional = _additional(source)
        items = source.get("items")
        self.items = Structural(items) if isinstance(items, Mapping) else None
        self.list_type: str = source.get("x-kubernetes-list-type", "")
        self.list_keys: tuple[str, ...] = tuple(source.get("x-kubernetes-list-map-keys") or ())
        inner = self._inner()
        # Flags that let walkers skip whole subtrees.
        self.has_defaults: bool = any(one.default is not None or one.has_defaults for one in inner)
        self.has_embedded: bool = any(
            bool(one.source.get("x-kubernetes-embedded-resource")) or one.has_embedded for one in inner
        )
        self.has_unique_lists: bool = self.list_type in ("set", "map") or any(one.has_unique_lists for one in inner)

    def _inner(self) -> list[Structural]:
        inner = list(self.properties.values())
        if isinstance(self.additional, Structural):
            inner.append(self.additional)
        if self.items is not None:
            inner.append(self.items)
        return inner

    def child(self, name: str) -> Structural | None:
        """Return the schema of a field or map entry, or None."""
        found = self.properties.get(name)
        if found is not None:
            return found
        return self.additional if isinstance(self.additional, Structural) else None


def _additional(source: Schema) -> Structural | Literal[True] | None:
    """Return the schema of a map's values; True if any keys but no value schema are declared."""
    given = source.get("additionalProperties")
    if given is None:
        return None
    return Structural(given) if isinstance(given, Mapping) else True
