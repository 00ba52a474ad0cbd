# SPDX-License-Identifier: Apache-2.0
"""Order of a list after a strategic merge: the patch's items in their order, interleaved with the server's items.

Items are identified by their merge key, or by their value in lists of scalars (an empty merge key).
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from typing import Any

from kubeloop.api.patch.errors import PatchFailed, PatchRejected
from kubeloop.api.patch.gotext import go_text, go_type

DIRECTIVE = "$patch"
ELEMENT_ORDER = "$setElementOrder"


def type_mismatch_error(wanted: Any, found: Any) -> PatchFailed:
    """Build the error for a value of an unexpected type."""
    return PatchFailed(f"expected a {go_type(wanted)}, but received a {go_type(found)}")


def element_type(original: Sequence[Any], patch: Sequence[Any]) -> type:
    """Return the single type of all elements."""
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
    """Return the identity of each item, in a hashable and comparable form."""
    try:
        values = [item[merge_key] for item in items] if merge_key else items
    except (KeyError, TypeError):
        raise _no_merge_key(items, merge_key) from None
    # Nearly all keys are strings, which are hashable and unambiguous.
    return values if set(map(type, values)) <= {str} else [_identity(value) for value in values]


def _identity(value: Any) -> Hashable:
    """Return a hashable form of a value in which 1, 1.0 and true differ."""
    kind = type(value)
    if kind is dict or kind is list:
        raise PatchFailed(f"comparing uncomparable type {go_type(value)}")
    return str(value) if kind is str else (kind, value)


def _no_merge_key(items: Sequence[Any], merge_key: str) -> PatchFailed:
    item = next(item for item in items if type(item) is not dict or merge_key not in item)
    if type(item) is not dict:
        return type_mismatch_error({}, item)
    return PatchFailed(f"map: {go_text(item)} does not contain declared merge key: {merge_key}")


def first_positions(keys: Sequence[Hashable]) -> dict[Hashable, int]:
    """Return the first index of each key."""
    return dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))


def check_element_order(patch: list[Any], order: list[Any], merge_key: str) -> None:
    """Reject a patch list with items that the order list lacks, or in another order."""
    if not patch or not order:
        return
    named = [item for item in patch if type(item) is not dict or DIRECTIVE not in item]
    remaining = iter(keys_of(order, merge_key))
    # `in` consumes the iterator up to the match, so each key is searched after the previous one.
    if not all(key in remaining for key in keys_of(named, merge_key)):
        raise PatchFailed(
            f"The order in patch list:\n{go_text(patch)}\n doesn't match {ELEMENT_ORDER} list:\n{go_text(order)}\n"
        )


def sort_merged(merged: list[Any], wanted: list[Any], live: list[Any], merge_key: str) -> list[Any]:
    """Sort merged items: the wanted ones in the wanted order, the others as in the live list."""
    keys, live_keys, wanted_keys = keys_of(merged, merge_key), keys_of(live, merge_key), keys_of(wanted, merge_key)
    live_at = first_positions(live_keys)
    if keys == live_keys and len(live_at) == len(keys) and _rising([live_at[k] for k in wanted_keys if k in live_at]):
        return merged
    wanted_at = first_positions(wanted_keys)
    places = range(len(keys))
    named = sorted((place for place in places if keys[place] in wanted_at), key=lambda place: wanted_at[keys[place]])
    server_only = [place for place in places if keys[place] not in wanted_at]
    known = sorted((place for place in server_only if keys[place] in live_at), key=lambda place: live_at[keys[place]])
    # Unordered items come first, in reverse: an effect of upstream's sort.
    unknown = [place for place in reversed(server_only) if keys[place] not in live_at]
    live_places = [live_at.get(key, -1) for key in keys]
    return [merged[place] for place in _interleaved(unknown + known, named, live_places)]


def _rising(numbers: list[int]) -> bool:
    return len(numbers) < 2 or all(map(operator.le, numbers, numbers[1:]))


def _interleaved(server_only: list[int], named: list[int], live_places: list[int]) -> list[int]:
    """Interleave both lists; a server item precedes a named one only if it preceded it in the live list."""
    result: list[int] = []
    waiting = 0
    for place in named:
        while waiting < len(server_only) and 0 <= live_places[server_only[waiting]] < live_places[place]:
            result.append(server_only[waiting])
            waiting += 1
        result.append(place)
    return result + server_only[waiting:]
