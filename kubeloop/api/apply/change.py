# SPDX-License-Identifier: Apache-2.0
"""Change of an object, compared in the API version of each manager's last write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kubeloop.api.apply.field_filters import FieldFilter
from kubeloop.api.apply.field_trees import tree_of_new
from kubeloop.api.apply.fields.compare import Comparison, compare
from kubeloop.api.apply.shape import shape_of
from kubeloop.api.schema import SchemaNode

Convert = Callable[[dict[str, Any], str], tuple[dict[str, Any], SchemaNode] | None]
"""An object in another of its versions, with that version's schema; None when there is no such version (any more)."""


class ManagedWrite(NamedTuple):
    """Write by a field manager, with the type of the written object.

    Fields that aren't `settable` (status on the main resource) can't be changed by the request and are never owned
    through it. `convert` is for kinds of several versions, whose managers may have written in another one.
    """

    kind: str
    api_version: str
    node: SchemaNode
    manager: str
    now: str
    subresource: str = ""
    settable: FieldFilter | None = None
    convert: Convert | None = None


class ObjectChange:
    """Change from `old` (None: a create) to `new`, restricted to the fields that the write may set."""

    def __init__(self, old: dict[str, Any] | None, new: dict[str, Any], write: ManagedWrite) -> None:
        self._old = old
        self._new = new
        self._settable = write.settable
        self._convert = write.convert
        shape = shape_of(write.node)
        found = Comparison(tree_of_new(new, shape), {}) if old is None else compare(old, new, shape)
        self.main = self._allowed(found)
        self._seen: dict[str, Comparison | None] = {write.api_version: self.main}

    def compare_in(self, version: str) -> Comparison | None:
        """Return the comparison in a version; None if the version is gone.

        Without a converter all versions are alike.
        """
        if self._convert is None or self._old is None:
            return self.main
        if version not in self._seen:
            self._seen[version] = self._compared(self._convert(self._old, version), self._convert(self._new, version))
        return self._seen[version]

    def _compared(
        self, old: tuple[dict[str, Any], SchemaNode] | None, new: tuple[dict[str, Any], SchemaNode] | None
    ) -> Comparison | None:
        if old is None or new is None:
            return None
        return self._allowed(compare(old[0], new[0], shape_of(new[1])))

    def _allowed(self, comparison: Comparison) -> Comparison:
        if self._settable is None:
            return comparison
        changed, removed = comparison
        return Comparison(self._settable(changed), self._settable(removed))
