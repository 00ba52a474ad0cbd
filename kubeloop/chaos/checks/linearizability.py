# SPDX-License-Identifier: Apache-2.0
"""Linearizability check of the operations on one object.

    calls and answers in the order of time ──▶ all states that the object can be in, each with the open calls that have
                                               taken effect already ──▶ none left: no order explains what was seen

The method is Lowe's just-in-time linearization: a call need not take effect before an answer depends on it.
A call without an answer stays open for good; it may take effect at any time, or never.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kubeloop.chaos.checks.history import ClientOperation, by_key

_ABSENT = ""


class _Case(NamedTuple):
    """Object's mark, and the open calls that have taken effect: those that will be answered, and the others."""

    state: str
    done: frozenset[int]
    unheard: frozenset[int]


class _Cases:
    """Set of cases without dominated ones.

    A call that is never answered need not have taken effect at all. So of two cases with the same state and the same
    calls to be answered, the one in which fewer others have taken effect can go on in every way in which the other can.
    """

    def __init__(self, cases: Iterable[_Case] = ()) -> None:
        self._least: dict[tuple[str, frozenset[int]], list[frozenset[int]]] = {}
        for case in cases:
            self.add(case)

    def add(self, case: _Case) -> bool:
        """Add a case; return True unless it is dominated by another."""
        least = self._least.setdefault((case.state, case.done), [])
        if any(other <= case.unheard for other in least):
            return False
        least[:] = [other for other in least if not case.unheard <= other]
        least.append(case.unheard)
        return True

    def __contains__(self, case: _Case) -> bool:
        return case.unheard in self._least.get((case.state, case.done), ())

    def __iter__(self) -> Iterator[_Case]:
        for (state, done), least in self._least.items():
            for unheard in least:
                yield _Case(state, done, unheard)

    def states(self) -> tuple[str, ...]:
        return tuple(sorted({state for state, _ in self._least}))


class Violation(NamedTuple):
    """Answer that no order of effects explains, given all earlier answers."""

    operation: ClientOperation
    open: tuple[ClientOperation, ...]  # what was under way at that moment
    states: tuple[str, ...]  # the marks that the object could have had before it

    def __str__(self) -> str:
        one = self.operation
        states = ", ".join(state or "absent" for state in self.states)
        return (
            f"{one.key}: {one.action} by {one.client or 'a client'} was answered {one.outcome}"
            f"{f' with {one.mark}' if one.mark else ''}{f' on {one.expected}' if one.expected else ''}, "
            f"but the object can only have been: {states}; {len(self.open)} other calls were open"
        )


def violations(operations: Iterable[ClientOperation]) -> list[Violation]:
    """Return the first violation of each object."""
    found = (first_violation(history) for history in by_key(operations).values())
    return [one for one in found if one is not None]


def first_violation(history: Sequence[ClientOperation]) -> Violation | None:
    """Return the first violation of one object; the object is absent at first."""
    history = sorted(history, key=lambda operation: operation.called)
    alike = _alike(history)
    cases = _Cases([_Case(_ABSENT, frozenset(), frozenset())])
    open_calls: dict[int, None] = {}  # in the order in which they came
    for _, is_answer, index in _moments(history):
        if not is_answer:
            open_calls[index] = None
            continue
        explained = _with_effect_of(index, cases, open_calls, history, alike)
        if not explained:
            others = tuple(history[one] for one in open_calls if one != index)
            return Violation(history[index], others, cases.states())
        del open_calls[index]
        cases = _Cases(case._replace(done=case.done - {index}) for case in explained)
    return None


def _moments(history: Sequence[ClientOperation]) -> list[tuple[float, bool, int]]:
    """Return calls and answers in the order of time; those of the same moment count as concurrent."""
    calls = [(operation.called, False, index) for index, operation in enumerate(history)]
    answers = [
        (operation.returned, True, index) for index, operation in enumerate(history) if operation.outcome != "unknown"
    ]
    return sorted(calls + answers)


def _alike(history: Sequence[ClientOperation]) -> list[object]:
    """Return an identity for each call; unanswered calls with indistinguishable effects share one."""
    told = {operation.mark for operation in history if operation.action == "get"}
    told |= {operation.expected for operation in history}
    return [
        (operation.action, operation.expected)
        if operation.outcome == "unknown" and (not operation.mark or operation.mark not in told)
        else index
        for index, operation in enumerate(history)
    ]


def _with_effect_of(
    index: int, cases: _Cases, open_calls: Iterable[int], history: Sequence[ClientOperation], alike: Sequence[object]
) -> list[_Case]:
    """Return all cases in which a call has taken effect, with open calls taking effect in some order."""
    reached: list[_Case] = []
    seen = _Cases(cases)
    waiting = deque(cases)
    while waiting:
        case = waiting.popleft()
        if case not in seen:
            continue  # something better was found meanwhile
        if index in case.done:
            reached.append(case)
            continue
        candidates = {alike[one]: one for one in reversed(list(open_calls)) if one not in case.done | case.unheard}
        for other in candidates.values():
            for after in _effects(history[other], case.state):
                following = _following(case, other, after, history[other].outcome == "unknown")
                if seen.add(following):
                    waiting.append(following)
    return reached


def _following(case: _Case, call: int, state: str, is_unheard: bool) -> _Case:
    if is_unheard:
        return _Case(state, case.done, case.unheard | {call})
    return _Case(state, case.done | {call}, case.unheard)


def _effects(operation: ClientOperation, state: str) -> tuple[str, ...]:
    """Return the states that an operation can leave; none if its answer does not fit the state it finds."""
    if operation.outcome in ("ok", "unknown"):
        after = _after(operation, state)
        return () if after is None else (after,)
    return (state,) if _refused(operation, state) else ()


def _after(operation: ClientOperation, state: str) -> str | None:
    """Return the state after a successful operation; None if it cannot succeed."""
    if operation.action == "create":
        return operation.mark if state == _ABSENT else None
    if operation.action == "get":
        return state if state == operation.mark and state != _ABSENT else None
    if state == _ABSENT or operation.expected not in ("", state):
        return None
    return operation.mark if operation.action == "update" else _ABSENT


def _refused(operation: ClientOperation, state: str) -> bool:
    """Return True if a rejection fits the object's state."""
    if operation.outcome == "exists":
        return state != _ABSENT
    if operation.outcome == "missing":
        return state == _ABSENT
    return state not in (_ABSENT, operation.expected)
