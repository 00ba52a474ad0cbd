"""Whether operations on one object can have happened one after the other, each at a moment between call and answer.

    calls and answers in the order of time ──▶ all states that the object can be in, each with the open calls that have
                                               taken effect already ──▶ none left: no order explains what was seen

The method is Lowe's just-in-time linearization: a call need not take effect before somebody's answer depends on it.
A call without an answer stays open for good; it may take effect at any time, or never.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kubeloop.chaos.history import Operation, by_key

_ABSENT = ""
# An object's mark, and which of the open calls have taken effect.
_Case = tuple[str, frozenset[int]]


class Violation(NamedTuple):
    """An answer that no order explains, given all that was answered before."""

    operation: Operation
    open: tuple[Operation, ...]  # what was under way at that moment
    states: tuple[str, ...]  # the marks that the object could have had before it

    def __str__(self) -> str:
        one = self.operation
        states = ", ".join(state or "absent" for state in self.states)
        return (
            f"{one.key}: {one.action} by {one.client or 'a client'} was answered {one.outcome}"
            f"{f' with {one.mark}' if one.mark else ''}{f' on {one.expected}' if one.expected else ''}, "
            f"but the object can only have been: {states}; {len(self.open)} other calls were open"
        )


def violations(operations: Iterable[Operation]) -> list[Violation]:
    """The first inexplicable answer about each object, if there is one."""
    found = (first_violation(history) for history in by_key(operations).values())
    return [one for one in found if one is not None]


def first_violation(history: Sequence[Operation]) -> Violation | None:
    """The first answer about one object that no order of effects explains; the object is absent at first."""
    cases: set[_Case] = {(_ABSENT, frozenset())}
    open_calls: set[int] = set()
    for _, is_answer, index in _moments(history):
        if not is_answer:
            open_calls.add(index)
            continue
        explained = _with_effect_of(index, cases, open_calls, history)
        if not explained:
            states = tuple(sorted({state for state, _ in cases}))
            others = tuple(history[one] for one in sorted(open_calls - {index}))
            return Violation(history[index], others, states)
        open_calls.remove(index)
        cases = {(state, done - {index}) for state, done in explained}
    return None


def _moments(history: Sequence[Operation]) -> list[tuple[float, bool, int]]:
    """Calls and answers in the order of time; what happens in the same moment counts as concurrent."""
    calls = [(operation.called, False, index) for index, operation in enumerate(history)]
    answers = [
        (operation.returned, True, index) for index, operation in enumerate(history) if operation.outcome != "unknown"
    ]
    return sorted(calls + answers)


def _with_effect_of(index: int, cases: set[_Case], open_calls: set[int], history: Sequence[Operation]) -> set[_Case]:
    """All cases in which a call has taken effect, each reached by letting open calls take theirs in some order."""
    reached, seen, waiting = set[_Case](), set(cases), list(cases)
    while waiting:
        state, done = waiting.pop()
        if index in done:
            reached.add((state, done))
            continue
        for other in open_calls - done:
            for after in _effects(history[other], state):
                case = (after, done | {other})
                if case not in seen:
                    seen.add(case)
                    waiting.append(case)
    return reached


def _effects(operation: Operation, state: str) -> tuple[str, ...]:
    """The states that an operation can leave behind it; none if its answer does not fit the one it finds."""
    if operation.outcome == "unknown":
        after = _after(operation, state)
        return (state,) if after is None else (state, after)
    if operation.outcome == "ok":
        after = _after(operation, state)
        return () if after is None else (after,)
    return (state,) if _refused(operation, state) else ()


def _after(operation: Operation, state: str) -> str | None:
    """What an operation that succeeds makes of an object; None where it can't succeed."""
    if operation.action == "create":
        return operation.mark if state == _ABSENT else None
    if operation.action == "get":
        return state if state == operation.mark and state != _ABSENT else None
    if state == _ABSENT or operation.expected not in ("", state):
        return None
    return operation.mark if operation.action == "update" else _ABSENT


def _refused(operation: Operation, state: str) -> bool:
    """Whether a refusal is right about an object."""
    if operation.outcome == "exists":
        return state != _ABSENT
    if operation.outcome == "missing":
        return state == _ABSENT
    return state not in (_ABSENT, operation.expected)
