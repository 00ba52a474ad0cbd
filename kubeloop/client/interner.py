# SPDX-License-Identifier: Apache-2.0
"""Interning of objects that are kept by the thousand: equal parts are stored once.

Pods of one template differ in a few names; everything else is stored once. Each field learns whether interning pays
there: names hardly repeat, images do.
"""

from __future__ import annotations

from sys import intern
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import astuple, force_setattr

# A field is evaluated after so many values: interning continues if at least every fourth was known.
_TRIALS = 1024
_WORTH_IT = _TRIALS // 4
# A field with more values than this is reset, since it keeps unused values alive.
_MOST_PARTS = 4096
_ATOMS = (int, bool, float)


class SharedMapping(dict[Any, Any]):
    """Immutable mapping that many objects share."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("this mapping is shared by many objects and immutable: modify a copy instead")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse


class _FieldSlot:
    """Interning state of one field of a class, or of its elements: the known values and their hit rate."""

    __slots__ = ("_elements", "_hits", "_parts", "_tries", "default", "index", "is_useless", "is_worthwhile", "name")

    def __init__(self, index: int, name: str, default: Any) -> None:
        self.index, self.name, self.default = index, name, default
        self.is_worthwhile = True
        self.is_useless = False  # neither the values nor their parts can be interned
        self._elements: _FieldSlot | None = None
        self._parts: dict[Any, Any] = {}
        self._tries = self._hits = 0

    def intern(self, part: Any, sharing: Interner) -> Any:
        """Return an equal value seen before, else this one with its own parts interned."""
        kind = type(part)
        if kind is str:
            return self._intern_text(part)
        if kind in _ATOMS:
            self.is_useless = True
            return part
        if not self.is_worthwhile:
            return self._intern_parts(part, kind, sharing)
        key = tuple(part.items()) if kind is dict else bytes(part) if kind is Raw else part
        try:
            known = self._parts.get(key)
        except TypeError:  # contains mutable values: only its parts can be interned
            self._stop()
            return self._intern_parts(part, kind, sharing)
        if self._tries < _TRIALS:
            self._evaluate(known is not None)
        if known is None:
            known = self._intern_parts(part, kind, sharing)
            self._keep(key if kind is dict or kind is Raw else known, known)
        return known

    def _intern_text(self, text: str) -> str:
        known = intern(text)
        if self._tries < _TRIALS:
            self._evaluate(known is not text)
            self.is_useless = not self.is_worthwhile
        return known

    def _intern_parts(self, part: Any, kind: type, sharing: Interner) -> Any:
        if kind is tuple:
            return self._intern_elements(part, sharing)
        if kind is dict:
            return SharedMapping(part)
        if kind is Raw:
            return part.copy()  # copy a slice, so that the longer text is not kept alive
        sharing.intern(part)
        return part

    def _intern_elements(self, parts: tuple[Any, ...], sharing: Interner) -> tuple[Any, ...]:
        place = self._elements
        if place is None:
            place = self._elements = _FieldSlot(0, self.name, None)
        return parts if place.is_useless else tuple([place.intern(one, sharing) for one in parts])

    def _keep(self, key: Any, part: Any) -> None:
        if self.is_worthwhile:
            if len(self._parts) >= _MOST_PARTS:
                self._parts = {}
            self._parts[key] = part

    def _evaluate(self, hit: bool) -> None:
        self._tries += 1
        self._hits += hit
        if self._tries == _TRIALS and self._hits < _WORTH_IT:
            self._stop()

    def _stop(self) -> None:
        self.is_worthwhile = False
        self._parts = {}


class Interner:
    """Interner for the objects of one collection."""

    def __init__(self) -> None:
        self._slots: dict[type, list[_FieldSlot]] = {}

    def intern(self, obj: Any) -> None:
        """Replace a struct's parts by equal ones that are known. The caller must own the struct.

        Slices of a longer text are copied. Objects that are not structs are left alone.
        """
        if isinstance(obj, Struct):
            self._intern_fields(obj, type(obj))

    def _intern_fields(self, obj: Struct, kind: type[Struct]) -> None:
        places = self._slots.get(kind)
        if places is None:
            fields = msgspec.structs.fields(kind)
            places = self._slots[kind] = [_FieldSlot(i, one.name, one.default) for i, one in enumerate(fields)]
        parts = astuple(obj)
        useless = False
        for place in places:
            part = parts[place.index]
            if part is place.default or not part:
                continue
            known = place.intern(part, self)
            if known is not part:
                force_setattr(obj, place.name, known)
            elif place.is_useless:
                useless = True
        if useless:
            self._slots[kind] = [one for one in places if not one.is_useless]
