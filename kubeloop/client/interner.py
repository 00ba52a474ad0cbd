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
        raise TypeError("this mapping is shared by many objects: make a changed copy instead")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse


class _FieldSlot:
    """Interning state of one field of a class, or of its elements: the known values and their hit rate."""

    __slots__ = ("_elements", "_hits", "_parts", "_tries", "default", "index", "is_useless", "name", "pays")

    def __init__(self, index: int, name: str, default: Any) -> None:
        self.index, self.name, self.default = index, name, default
        self.pays = True
        self.is_useless = False  # neither the values nor their parts can be interned
        self._elements: _FieldSlot | None = None
        self._parts: dict[Any, Any] = {}
        self._tries = self._hits = 0

    def shared(self, part: Any, sharing: Interner) -> Any:
        """Return an equal value seen before, else this one with its own parts interned."""
        kind = type(part)
        if kind is str:
            return self._shared_text(part)
        if kind in _ATOMS:
            self.is_useless = True
            return part
        if not self.pays:
            return self._of_shared_parts(part, kind, sharing)
        key = tuple(part.items()) if kind is dict else bytes(part) if kind is Raw else part
        try:
            known = self._parts.get(key)
        except TypeError:  # contains mutable values: only its parts can be interned
            self._stop()
            return self._of_shared_parts(part, kind, sharing)
        if self._tries < _TRIALS:
            self._judge(known is not None)
        if known is None:
            known = self._of_shared_parts(part, kind, sharing)
            self._keep(key if kind is dict or kind is Raw else known, known)
        return known

    def _shared_text(self, text: str) -> str:
        known = intern(text)
        if self._tries < _TRIALS:
            self._judge(known is not text)
            self.is_useless = not self.pays
        return known

    def _of_shared_parts(self, part: Any, kind: type, sharing: Interner) -> Any:
        if kind is tuple:
            return self._of_shared_elements(part, sharing)
        if kind is dict:
            return SharedMapping(part)
        if kind is Raw:
            return part.copy()  # copy a slice, so that the longer text is not kept alive
        sharing.share(part)
        return part

    def _of_shared_elements(self, parts: tuple[Any, ...], sharing: Interner) -> tuple[Any, ...]:
        place = self._elements
        if place is None:
            place = self._elements = _FieldSlot(0, self.name, None)
        return parts if place.is_useless else tuple([place.shared(one, sharing) for one in parts])

    def _keep(self, key: Any, part: Any) -> None:
        if self.pays:
            if len(self._parts) >= _MOST_PARTS:
                self._parts = {}
            self._parts[key] = part

    def _judge(self, hit: bool) -> None:
        self._tries += 1
        self._hits += hit
        if self._tries == _TRIALS and self._hits < _WORTH_IT:
            self._stop()

    def _stop(self) -> None:
        self.pays = False
        self._parts = {}


class Interner:
    """Interner for the objects of one collection."""

    def __init__(self) -> None:
        self._places: dict[type, list[_FieldSlot]] = {}

    def share(self, obj: Any) -> None:
        """Replace a struct's parts by equal ones that are known. The caller must own the struct.

        Slices of a longer text are copied. Objects that are not structs are left alone.
        """
        if isinstance(obj, Struct):
            self._share(obj, type(obj))

    def _share(self, obj: Struct, kind: type[Struct]) -> None:
        places = self._places.get(kind)
        if places is None:
            fields = msgspec.structs.fields(kind)
            places = self._places[kind] = [_FieldSlot(i, one.name, one.default) for i, one in enumerate(fields)]
        parts = astuple(obj)
        useless = False
        for place in places:
            part = parts[place.index]
            if part is place.default or not part:
                continue
            known = place.shared(part, self)
            if known is not part:
                force_setattr(obj, place.name, known)
            elif place.is_useless:
                useless = True
        if useless:
            self._places[kind] = [one for one in places if not one.is_useless]
