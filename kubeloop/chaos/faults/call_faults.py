# SPDX-License-Identifier: Apache-2.0
"""Faults on calls to an API server, chosen at random from a plan's seed.

The server receives this object at start, and asks it about every call before it executes it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from kubeloop.api import errors
from kubeloop.chaos.call_matcher import CallMatcher
from kubeloop.chaos.plan import ChaosPlan, Conflicts, CutWatches, Errors, LostAnswers, OnCalls, Slow

# Cause of injected errors, which distinguishes them from real ones.
INJECTED = "FailedOnPurpose"
_RETRY_AFTER = 1


class InjectedFault(NamedTuple):
    """Effect of a fault on one call."""

    delay: float = 0.0
    error: errors.ApiError | None = None
    drops_response: bool = False


class CallFaults:
    """Faults of a plan on calls, and on open watches."""

    def __init__(self, plan: ChaosPlan) -> None:
        self._faults = tuple(enumerate(plan.faults))
        self._on_calls = tuple((index, fault) for index, fault in self._faults if isinstance(fault, OnCalls))
        self._slow = tuple((index, fault) for index, fault in self._on_calls if isinstance(fault, Slow))
        self._seed = plan.seed
        self._chances = [random.Random(f"{plan.seed}/{index}") for index, _ in self._faults]
        self._watches: dict[object, tuple[str, Callable[[], None]]] = {}

    def fault_of(self, user: str, verb: str, resource: str, name: str) -> InjectedFault | None:
        """Return the fault that hits a call; `resource` includes the group. Only the first match applies."""
        for index, fault in self._on_calls:
            if verb == "watch" and isinstance(fault, LostAnswers | Slow):
                continue  # a watch has no one answer; its events are slow, not it
            if fault.concerns(user, verb, resource) and self._chances[index].random() < fault.chance:
                return _struck(fault, index, resource, name)
        return None

    def event_delay(self, user: str, resource: str) -> float:
        """Return the delay of an open watch's next events in seconds."""
        for index, fault in self._slow:
            if fault.concerns(user, "watch", resource) and self._chances[index].random() < fault.chance:
                return float(fault.by)
        return 0.0

    def register_watch(self, resource: str, cut: Callable[[], None]) -> Callable[[], None]:
        """Register a watch; returns the function that unregisters it."""
        token = object()
        self._watches[token] = (resource, cut)
        return lambda: self._watches.pop(token, None) and None

    def cut_watches(self, resources: tuple[str, ...] = ()) -> int:
        """Break all watches of some resources, or of any; returns their number."""
        matcher = CallMatcher(resources=resources)
        found = [cut for resource, cut in self._watches.values() if matcher.matches_resource(resource)]
        for cut in found:
            cut()
        return len(found)

    async def run(self) -> None:
        """Run recurring faults until cancelled."""
        async with asyncio.TaskGroup() as group:
            for index, fault in self._faults:
                if isinstance(fault, CutWatches):
                    group.create_task(self._cut_again_and_again(fault, self._chances[index]))

    async def _cut_again_and_again(self, fault: CutWatches, chance: random.Random) -> None:
        while True:
            await asyncio.sleep(fault.every * chance.uniform(0.5, 1.5))
            self.cut_watches(fault.resources)


def _struck(fault: OnCalls, index: int, resource: str, name: str) -> InjectedFault:
    if isinstance(fault, Slow):
        return InjectedFault(delay=fault.by)
    if isinstance(fault, LostAnswers):
        return InjectedFault(drops_response=True)
    if isinstance(fault, Conflicts):
        plural, _, group = resource.partition(".")
        return InjectedFault(error=_told(errors.conflict(group, plural, name), index))
    assert isinstance(fault, Errors)
    retry_after = _RETRY_AFTER if fault.code == 429 else 0  # marks that a client may retry
    return InjectedFault(error=_told(errors.generic_server_response(fault.code, "injected fault", retry_after), index))


def _told(error: errors.ApiError, index: int) -> errors.ApiError:
    """Add the fault's index as a cause to an error."""
    cause = errors.StatusCause(reason=INJECTED, message=f"faults[{index}] of the chaos plan")
    error.details = msgspec.structs.replace(error.details or errors.StatusDetails(), causes=(*error.causes, cause))
    return error


def is_injected(error: errors.ApiError) -> bool:
    """Return True if a plan injected the error: the call was not executed."""
    return any(cause.reason == INJECTED for cause in error.causes)
