# SPDX-License-Identifier: Apache-2.0
"""Work of overloads beyond their cost: upstream charges by the length of collections, or not at all.

Each entry returns the number of elements a call visits; a frame bounds their total.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kubeloop.api.cel.values import SCALARS, MapList, SetList

if TYPE_CHECKING:
    from kubeloop.api.cel.evaluation import ExecutionFrame

Work = Callable[["ExecutionFrame", tuple[Any, ...]], int]

# Number of elements copied or compared as a whole, and of characters, in the time of one visited element.
_COPIED: Final = 32
_CHARACTERS: Final = 1024
_SCANNED: Final = 32  # characters, by regular expressions


def _collections(args: tuple[Any, ...]) -> list[Any]:
    return [value for value in args if isinstance(value, (Mapping, list, tuple))]


def _comparing(frame: ExecutionFrame, args: tuple[Any, ...]) -> int:
    if type(args[0]) in SCALARS or type(args[1]) in SCALARS:
        return 0
    collections = _collections(args)
    if not collections or len({len(one) for one in collections}) > 1:
        return 0
    return min(_compared(frame, one) for one in collections)


def _compared(frame: ExecutionFrame, value: Any) -> int:
    own = len(value) if isinstance(value, (Mapping, SetList, MapList)) else len(value) // _COPIED
    return own + 2 * frame.elements_inside(value)


def _going_through(frame: ExecutionFrame, args: tuple[Any, ...]) -> int:
    return sum(map(frame.elements_inside, _collections(args)))


def _writing(frame: ExecutionFrame, args: tuple[Any, ...]) -> int:
    """Return the work of formatting: elements are slow to format, strings are copied."""
    texts = sum(len(one) for one in args[1] if isinstance(one, str))
    return 3 * _going_through(frame, args) + texts // _CHARACTERS


def _joining(_: ExecutionFrame, args: tuple[Any, ...]) -> int:
    one, other = args
    length = len(one) + len(other)
    return length if isinstance(one, (SetList, MapList)) else length // _COPIED


def _scanning(_: ExecutionFrame, args: tuple[Any, ...]) -> int:
    return len(args[0]) // _SCANNED


WORK: Final[Mapping[str, Work]] = {
    **dict.fromkeys(("equals", "not_equals"), _comparing),
    **dict.fromkeys(
        (
            "in_list",
            "list_a_index_of_int",
            "list_a_last_index_of_int",
            "list_includes_dyn_dyn",
            "list_distinct",
            "list_sets_contains_list",
            "list_sets_equivalent_list",
            "list_sets_intersects_list",
        ),
        _going_through,
    ),
    "string_format": _writing,
    "add_list": _joining,
    "is_url_string": _scanning,
}

# Work per element of the result.
WORK_OF_RESULT: Final[Mapping[str, int]] = {"string_find_all_string": 20, "string_find_all_string_int": 20}
