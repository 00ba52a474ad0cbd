# SPDX-License-Identifier: Apache-2.0
"""Assume cache: an informer's objects, overlaid with those that the controller wrote itself.

A sync before the informer has caught up would otherwise act on outdated state: create twice, or write to an outdated
version. The newer of the informer's and the assumed object counts, by resourceVersion. Controllers that must not act
before the informer has caught up wait instead: see `kubeloop.runtime.consistency_store`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.objects.versions import version_number, version_of

ObjectChanged = Callable[[ObjectKey], None]


class AssumeCache:
    """Objects of one informer, and those that writes returned for as long as the informer is older.

    It can be an event handler of its informer; `changed` is then called with each key whose newest object changes.

    Invariant: `_assumed` is ordered by the time of the write, and its first object is newer than the informer was at
    the last write. Objects that the informer has reached count no more, even if it shows none: they were deleted.
    """

    def __init__(self, informer: Informer, changed: ObjectChanged | None = None) -> None:
        self._informer = informer
        self._changed = changed
        self._assumed: dict[ObjectKey, Any] = {}

    def assume(self, obj: Any) -> Any:
        """Record the object that a write returned, unless a newer one is known; returns that object."""
        self._drop_reached()
        key = key_of(obj)
        known = self.get(*key)
        if self._is_ahead(obj) and (known is None or version_of(known) < version_of(obj)):
            self._assumed.pop(key, None)  # the newest is the last
            self._assumed[key] = obj
            self._report(key)
        return obj

    def restore(self, key: ObjectKey) -> None:
        """Drop the assumed object of a key, so that the informer's counts."""
        self._assumed.pop(key, None)

    def get(self, namespace: str, name: str) -> Any | None:
        """Return the newest known form of an object; None if it does not exist."""
        cached = self._informer.get(namespace, name)
        return self._newest(ObjectKey(namespace, name), cached) if self._assumed else cached

    def by_index(self, index: str, value: str) -> list[Any]:
        """Return the objects under an index value, then the assumed ones that the informer does not show yet.

        An object that the informer shows under this value is returned even if its assumed form has left the value.
        """
        self._drop_reached()
        cached = self._informer.by_index(index, value)
        if not self._assumed:
            return list(cached)
        found = {key: self._newest(key, obj) for key, obj in ((key_of(obj), obj) for obj in cached)}
        values_of = self._informer.index_function(index)
        for key, obj in tuple(self._assumed.items()):
            if key not in found and value in values_of(obj) and self.get(*key) is obj:
                found[key] = obj
        return list(found.values())

    # Event handler

    def on_add(self, obj: Any) -> None:
        """Report a new object."""
        self._report(key_of(obj))

    def on_update(self, _: Any, new: Any) -> None:
        """Report a changed object."""
        self._report(key_of(new))

    def on_delete(self, obj: Any) -> None:
        """Report a deleted object and drop its assumed form, unless that is a newer object of this name."""
        key = key_of(obj)
        assumed = self._assumed.get(key)
        if assumed is not None and version_of(assumed) <= version_of(obj):
            self.restore(key)
        self._report(key)

    def _newest(self, key: ObjectKey, cached: Any | None) -> Any | None:
        assumed = self._assumed.get(key)
        if assumed is None:
            return cached
        if self._is_ahead(assumed) and (cached is None or version_of(cached) < version_of(assumed)):
            return assumed
        self.restore(key)
        return cached

    def _is_ahead(self, obj: Any) -> bool:
        return version_of(obj) > version_number(self._informer.version)

    def _drop_reached(self) -> None:
        while self._assumed:
            key = next(iter(self._assumed))
            if self._is_ahead(self._assumed[key]):
                return
            self.restore(key)

    def _report(self, key: ObjectKey) -> None:
        if self._changed is not None:
            self._changed(key)
