"""Objects that are kept by the thousand share what they have in common: parts that are equal become one part.

Pods of one template differ in a few names; everything else of them is needed once. Each place where a part can stand
learns by itself whether looking for an equal one pays there: names hardly repeat, images do.
"""

from __future__ import annotations

from sys import intern
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import astuple, force_setattr

# A place is judged after so many parts: it goes on if at least every fourth was known.
_TRIALS = 1024
_WORTH_IT = _TRIALS // 4
# A place that has collected more parts than this begins anew: it keeps alive what no object has any more.
_MOST_PARTS = 4096
_ATOMS = (int, bool, float)


class Shared(dict[Any, Any]):
    """A mapping that many objects have in common, so that none may change it."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("this mapping is shared by many objects: make a changed copy instead")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse


class _Place:
    """One field of a class, or the elements of one: the parts that stood there, and whether they repeat."""

    __slots__ = ("_elements", "_hits", "_parts", "_tries", "default", "index", "is_useless", "name", "pays")

    def __init__(self, index: int, name: str, default: Any) -> None:
        self.index, self.name, self.default = index, name, default
        self.pays = True
        self.is_useless = False  # neither what stands here nor anything within can be shared
        self._elements: _Place | None = None
        self._parts: dict[Any, Any] = {}
        self._tries = self._hits = 0

    def shared(self, part: Any, sharing: Sharing) -> Any:
        """An equal part that was here before, else this one, with its own parts shared."""
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
        except TypeError:  # something within is no constant: only its parts can be shared
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

    def _of_shared_parts(self, part: Any, kind: type, sharing: Sharing) -> Any:
        if kind is tuple:
            return self._of_shared_elements(part, sharing)
        if kind is dict:
            return Shared(part)
        if kind is Raw:
            return part.copy()  # a part of a longer text, which must not be kept for its sake
        sharing.share(part)
        return part

    def _of_shared_elements(self, parts: tuple[Any, ...], sharing: Sharing) -> tuple[Any, ...]:
        place = self._elements
        if place is None:
            place = self._elements = _Place(0, self.name, None)
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


class Sharing:
    """What the objects of one collection have in common."""

    def __init__(self) -> None:
        self._places: dict[type, list[_Place]] = {}

    def share(self, obj: Any) -> None:
        """Replace a struct's parts by equal ones that are known. It must be its maker's own still.

        Whatever it held of a longer text is copied. Objects that are no structs are left alone.
        """
        if isinstance(obj, Struct):
            self._share(obj, type(obj))

    def _share(self, obj: Struct, kind: type[Struct]) -> None:
        places = self._places.get(kind)
        if places is None:
            fields = msgspec.structs.fields(kind)
            places = self._places[kind] = [_Place(i, one.name, one.default) for i, one in enumerate(fields)]
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
