# SPDX-License-Identifier: Apache-2.0
"""Dynamic dispatch of calls to overloads, by the types of the arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kubeloop.api.cel.check.types import Type, is_optional
from kubeloop.api.cel.cost.uncharged_work import WORK, WORK_OF_RESULT
from kubeloop.api.cel.environment import Overload
from kubeloop.api.cel.values import CelError, Duration, Optional, Timestamp, UInt, is_list

if TYPE_CHECKING:
    from kubeloop.api.cel.evaluation import ExecutionFrame

Accepts = Callable[[Any], bool]
Dispatch = Callable[["ExecutionFrame", tuple[Any, ...]], Any]

_OF_KIND: Mapping[str, Accepts] = {
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: type(value) is int,
    "uint": lambda value: type(value) is UInt,
    "double": lambda value: isinstance(value, float),
    "string": lambda value: isinstance(value, str),
    "bytes": lambda value: isinstance(value, bytes),
    "null": lambda value: value is None,
    "list": is_list,
    "map": lambda value: isinstance(value, Mapping),
    "object": lambda value: isinstance(value, Mapping),
    "duration": lambda value: isinstance(value, Duration),
    "timestamp": lambda value: isinstance(value, Timestamp),
    "type": lambda value: isinstance(value, Type),
}


def type_test_of(wanted: Type) -> Accepts | None:
    """Return a function that tests if a value has a type; None if every value does."""
    if wanted.kind in ("dyn", "variable", "error"):
        return None
    if is_optional(wanted):
        return lambda value: isinstance(value, Optional)
    if wanted.kind == "opaque":
        return lambda value: getattr(value, "cel_type", None) == wanted
    if wanted.kind in ("list", "map"):
        return _collection(wanted)
    return _OF_KIND[wanted.kind]


def _collection(wanted: Type) -> Accepts:
    """Return the test for lists or maps; lists are distinguished by their first element if overloads require it."""
    is_one = _OF_KIND[wanted.kind]
    scalar = (
        wanted.kind == "list" and wanted.params[0].kind in _OF_KIND and wanted.params[0].kind not in ("list", "map")
    )
    element = type_test_of(wanted.params[0]) if scalar else None
    if element is None:
        return is_one
    return lambda value: is_one(value) and (not value or element(value[0]))


def dispatcher_of(function: str, overloads: Sequence[Overload], given: Sequence[Type]) -> Dispatch:
    """Return the function that calls the matching overload and charges for it."""
    if len(overloads) == 1 and not any(one.kind == "dyn" for one in given):
        return _charged(overloads[0])  # types are checked: only null can occur instead
    candidates = [(_charged(one), [type_test_of(param) for param in one.params]) for one in overloads]
    known: dict[tuple[type, ...], Dispatch] = {}

    def dispatch(frame: ExecutionFrame, args: tuple[Any, ...]) -> Any:
        types = tuple(map(type, args))
        if (found := known.get(types)) is not None:
            return found(frame, args)
        for call, acceptors in candidates:
            if _fits(acceptors, args):
                if _TOLD_BY_TYPE.issuperset(types):
                    known[types] = call
                return call(frame, args)
        raise CelError(f"no such overload: {function}")

    return dispatch


# Types whose values match an overload independent of their content.
_TOLD_BY_TYPE: Final = frozenset((bool, int, float, str, bytes, type(None), UInt, Duration, Timestamp))


def _fits(acceptors: list[Accepts | None], args: tuple[Any, ...]) -> bool:
    for accepts, arg in zip(acceptors, args, strict=True):  # noqa: SIM110 - a generator would cost more than the tests
        if accepts is not None and not accepts(arg):
            return False
    return True


def _charged(overload: Overload) -> Dispatch:
    """Wrap an overload so that it charges before it works."""
    call, cost_of = overload.call, overload.cost
    work_of, work_of_result = WORK.get(overload.name), WORK_OF_RESULT.get(overload.name)

    def charge(frame: ExecutionFrame, args: tuple[Any, ...]) -> Any:
        try:
            frame.cost += 1 if cost_of is None else cost_of(args)
            if frame.cost > frame.limit:
                raise frame.limit_error()
            if work_of is not None and (work := work_of(frame, args)):
                frame.count_work(work)
            result = call(*args)
            if work_of_result is not None:
                frame.count_work(work_of_result * len(result))
            return result
        except (TypeError, AttributeError):  # null, or elements of a dyn collection
            raise CelError("no such overload") from None
        except (OverflowError, ValueError) as error:
            raise CelError(str(error)) from None

    return charge
