"""The order of a list after a strategic merge: what the client named, in its order, among what only the server knew.

Items are told apart by their merge key, or by their own value where the list holds scalars (an empty merge key).
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from typing import Any

from kubeloop.api.patch.errors import PatchFailed, PatchRejected
from kubeloop.api.patch.gotext import go_text, go_type

DIRECTIVE = "$patch"
ELEMENT_ORDER = "$setElementOrder"


def expected(wanted: Any, found: Any) -> PatchFailed:
    return PatchFailed(f"expected a {go_type(wanted)}, but received a {go_type(found)}")


def element_type(original: Sequence[Any], patch: Sequence[Any]) -> type:
    """The one type that all elements have."""
    types = {*map(type, original), *map(type, patch)}
    if not types:
        raise PatchFailed("no elements in any of the given slices")
    if len(types) > 1 or type(None) in types:
        raise PatchFailed(f"list element types are not identical: {go_text([original, patch])}")
    found = types.pop()
    if found is list:
        raise PatchRejected("lists of lists are not supported")
    return found


def keys_of(items: Sequence[Any], merge_key: str) -> Sequence[Hashable]:
    """What makes each item itself, in a form to compare and to look up by."""
    try:
        values = [item[merge_key] for item in items] if merge_key else items
    except (KeyError, TypeError):
        raise _no_merge_key(items, merge_key) from None
    # Nearly all keys are strings, and those need no further care.
    return values if set(map(type, values)) <= {str} else [_identity(value) for value in values]


def _identity(value: Any) -> Hashable:
    """The value, such that 1, 1.0 and true differ."""
    kind = type(value)
    if kind is dict or kind is list:
        raise PatchFailed(f"comparing uncomparable type {go_type(value)}")
    return str(value) if kind is str else (kind, value)


def _no_merge_key(items: Sequence[Any], merge_key: str) -> PatchFailed:
    item = next(item for item in items if type(item) is not dict or merge_key not in item)
    if type(item) is not dict:
        return expected({}, item)
    return PatchFailed(f"map: {go_text(item)} does not contain declared merge key: {merge_key}")


def positions(keys: Sequence[Hashable]) -> dict[Hashable, int]:
    """Where each key stands first."""
    return dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))


def check_element_order(patch: list[Any], order: list[Any], merge_key: str) -> None:
    """Refuse a patch list that names items beyond the order list, or in another order."""
    if not patch or not order:
        return
    named = [item for item in patch if type(item) is not dict or DIRECTIVE not in item]
    remaining = iter(keys_of(order, merge_key))
    # Membership in an iterator uses it up to the match, so each key is sought behind the one before.
    if not all(key in remaining for key in keys_of(named, merge_key)):
        raise PatchFailed(
            f"The order in patch list:\n{go_text(patch)}\n doesn't match {ELEMENT_ORDER} list:\n{go_text(order)}\n"
        )


def in_order(merged: list[Any], wanted: list[Any], live: list[Any], merge_key: str) -> list[Any]:
    """Merged items, the wanted ones in the wanted order, the others where the live list had them."""
    keys, live_keys, wanted_keys = keys_of(merged, merge_key), keys_of(live, merge_key), keys_of(wanted, merge_key)
    live_at = positions(live_keys)
    if keys == live_keys and len(live_at) == len(keys) and _rising([live_at[k] for k in wanted_keys if k in live_at]):
        return merged
    wanted_at = positions(wanted_keys)
    places = range(len(keys))
    named = sorted((place for place in places if keys[place] in wanted_at), key=lambda place: wanted_at[keys[place]])
    server_only = [place for place in places if keys[place] not in wanted_at]
    known = sorted((place for place in server_only if keys[place] in live_at), key=lambda place: live_at[keys[place]])
    # Items that nobody ordered come first, the last one foremost: upstream's sort moves them so.
    unknown = [place for place in reversed(server_only) if keys[place] not in live_at]
    live_places = [live_at.get(key, -1) for key in keys]
    return [merged[place] for place in _interleaved(unknown + known, named, live_places)]


def _rising(numbers: list[int]) -> bool:
    return len(numbers) < 2 or all(map(operator.le, numbers, numbers[1:]))


def _interleaved(server_only: list[int], named: list[int], live_places: list[int]) -> list[int]:
    """Both lists in one, each keeping its order; a server's item goes before a named one only if it stood before."""
    result: list[int] = []
    waiting = 0
    for place in named:
        while waiting < len(server_only) and 0 <= live_places[server_only[waiting]] < live_places[place]:
            result.append(server_only[waiting])
            waiting += 1
        result.append(place)
    return result + server_only[waiting:]
