# SPDX-License-Identifier: Apache-2.0
"""Logical operators with short-circuit evaluation, which absorb errors of operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kubeloop.api.cel.evaluation import ExecutionFrame, Step
from kubeloop.api.cel.values import Cancelled, CelError, Optional


def _and(terms: list[Step]) -> Step:
    return _logical(terms, decisive=False)


def _or(terms: list[Step]) -> Step:
    return _logical(terms, decisive=True)


def _logical(terms: list[Step], decisive: bool) -> Step:
    indecisive = not decisive

    def decide(frame: ExecutionFrame) -> bool:
        failure: CelError | None = None
        for term in terms:
            try:
                value: object = term(frame)
                if value is decisive:
                    return decisive
                if value is not indecisive:
                    raise CelError("no such overload")
            except Cancelled:
                raise
            except CelError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return indecisive

    return decide


def conditional(condition: Step, yes: Step, no: Step) -> Step:
    """Return a step for the conditional operator."""
    return lambda frame: yes(frame) if as_bool(condition(frame)) else no(frame)


def _not_strictly_false(operands: list[Step]) -> Step:
    (operand,) = operands

    def test(frame: ExecutionFrame) -> bool:
        frame.spend(1)
        try:
            return operand(frame) is not False
        except Cancelled:
            raise
        except CelError:
            return True

    return test


def _or_optional(operands: list[Step]) -> Step:
    one, other = operands

    def decide(frame: ExecutionFrame) -> Any:
        held = _optional(one(frame))
        return held if held.has_value else other(frame)

    return decide


def _or_value(operands: list[Step]) -> Step:
    one, other = operands

    def decide(frame: ExecutionFrame) -> Any:
        held = _optional(one(frame))
        return held.value if held.has_value else other(frame)

    return decide


def _optional(value: Any) -> Optional:
    if not isinstance(value, Optional):
        raise CelError("no such overload")
    return value


SPECIAL: Final[dict[str, Callable[[list[Step]], Step]]] = {
    "_&&_": _and,
    "_||_": _or,
    "@not_strictly_false": _not_strictly_false,
    "or": _or_optional,
    "orValue": _or_value,
}


def as_bool(value: Any) -> bool:
    """Return a boolean unchanged; raises CelError for any other value."""
    if value is True or value is False:
        return bool(value)
    raise CelError("no such overload")


def next_accumulator(step: Step, frame: ExecutionFrame) -> Any:
    """Return the next accumulator of a loop; it may be an error, which a later element can absorb."""
    try:
        return step(frame)
    except Cancelled:
        raise
    except CelError as error:
        return error.with_traceback(None)  # the traceback would grow with each round
