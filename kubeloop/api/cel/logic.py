"""Operators that do not evaluate all of their operands, and go on where an operand fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kubeloop.api.cel.evaluation import Frame, Step
from kubeloop.api.cel.values import Cancelled, CelError


def _and(terms: list[Step]) -> Step:
    return _logical(terms, decisive=False)


def _or(terms: list[Step]) -> Step:
    return _logical(terms, decisive=True)


def _logical(terms: list[Step], decisive: bool) -> Step:
    def decide(frame: Frame) -> bool:
        failure: CelError | None = None
        for term in terms:
            try:
                if truth(term(frame)) is decisive:
                    return decisive
            except Cancelled:
                raise
            except CelError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return not decisive

    return decide


def _conditional(operands: list[Step]) -> Step:
    condition, yes, no = operands
    return lambda frame: yes(frame) if truth(condition(frame)) else no(frame)


def _not_strictly_false(operands: list[Step]) -> Step:
    (operand,) = operands

    def test(frame: Frame) -> bool:
        frame.spend(1)
        try:
            return operand(frame) is not False
        except Cancelled:
            raise
        except CelError:
            return True

    return test


SPECIAL: Final[dict[str, Callable[[list[Step]], Step]]] = {
    "_&&_": _and,
    "_||_": _or,
    "_?_:_": _conditional,
    "@not_strictly_false": _not_strictly_false,
}


def truth(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise CelError("no such overload")


def settled(step: Step, frame: Frame) -> Any:
    """The next state of a loop, which may be an error: a later element may make up for it."""
    try:
        return step(frame)
    except Cancelled:
        raise
    except CelError as error:
        return error
