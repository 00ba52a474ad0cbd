# SPDX-License-Identifier: Apache-2.0
"""Fault injection between a client and the server: errors, delays, lost answers and broken watches.

They test retries, relists and requeues. The test's own client is never hit. Random choices come from the cluster's
seed.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from kubeloop.api import errors
from kubeloop.api.kinds import Resource
from kubeloop.api.requests import Call, WatchEvent
from kubeloop.chaos.call_matcher import VERBS, CallMatcher
from kubeloop.client.errors import ConnectionLost
from kubeloop.client.transport import ClientTransport, commit_together

if TYPE_CHECKING:
    from kubeloop.chaos.faults.call_faults import CallFaults, InjectedFault

ErrorOf = Callable[[Call], Exception]
_USER = "kubernetes-admin"  # user of the code under test


def conflict_of(call: Call) -> Exception:
    """Return a Conflict, as if another client had written in between."""
    return errors.conflict(call.resource.group, call.resource.plural, call.name)


def unavailable_error(_: Call) -> Exception:
    """Return a ServiceUnavailable error."""
    return errors.service_unavailable("the server is currently unable to handle the request")


def connection_lost_error(call: Call) -> Exception:
    """Return a ConnectionLost error."""
    return ConnectionLost(f"{call.verb} {call.resource.group_resource}: the connection broke")


@dataclass(slots=True, kw_only=True)
class Fault:
    """Selector, count and effect of a fault."""

    calls: CallMatcher
    times: int | None  # how many calls it still hits; None for all
    chance: float
    error: ErrorOf | None
    delay: float
    answered: bool  # True if the call is executed and only its answer is lost
    optional: bool = False  # True if it is no mistake that no call matches
    hits: int = 0
    matched: int = 0  # calls that it applied to; with a chance, not all of them were hit

    def strikes(self, call: Call, source: random.Random) -> bool:
        """Return True if the fault hits a call, and count it."""
        if self.times == 0 or not self.calls.matches(call.verb, call.resource.group_resource, call.name):
            return False
        self.matched += 1
        if self.chance < 1.0 and source.random() >= self.chance:
            return False
        self.hits += 1
        if self.times is not None:
            self.times -= 1
        return True


def _matcher(verb: str = "", resource: str = "", name: str = "") -> CallMatcher:
    """Return a matcher in which an empty text matches any call."""
    verbs, resources, names = ((one,) if one else () for one in (verb, resource, name))
    return CallMatcher(verbs, resources, names)


def _hint(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else "."


def _error_of(struck: InjectedFault) -> ErrorOf | None:
    if (error := struck.error) is not None:
        return lambda _: error
    return connection_lost_error if struck.drops_response else None


class ClusterFaults:
    """All faults of a cluster."""

    def __init__(self, seed: int, resources: Callable[[], Collection[str]]) -> None:
        self._random = random.Random(seed)
        self._resources = resources  # names of those that the server serves at the moment
        self._faults: list[Fault] = []
        self._all: list[Fault] = []  # also those that were cleared
        self._watches: dict[asyncio.Future[None], Call] = {}
        self.plan: CallFaults | None = None  # what hits calls beside the switches, by chance

    def set_plan(self, plan: CallFaults | None) -> None:
        """Apply the faults of a plan beside the switches; None ends that."""
        self.plan = plan

    def fail(
        self,
        verb: str = "",
        resource: str = "",
        error: Exception | ErrorOf = unavailable_error,
        *,
        name: str = "",
        times: int | None = 1,
        chance: float = 1.0,
        optional: bool = False,
    ) -> Fault:
        """Fail the next calls of a verb (or `read`, `write`) on a resource, without reaching the server.

        It is a mistake if no call matches a fault until the end of the test, unless the fault is optional.
        """
        error_of = error if callable(error) else lambda _: error
        return self._add(_matcher(verb, resource, name), times, chance, error=error_of, optional=optional)

    def conflict(
        self,
        verb: str = "patch",
        resource: str = "",
        *,
        name: str = "",
        times: int | None = 1,
        optional: bool = False,
    ) -> Fault:
        """Fail the next writes with a Conflict."""
        return self._add(_matcher(verb, resource, name), times, error=conflict_of, optional=optional)

    def lose_answers(
        self,
        verb: str = "write",
        resource: str = "",
        *,
        name: str = "",
        times: int | None = 1,
        chance: float = 1.0,
        optional: bool = False,
    ) -> Fault:
        """Execute the next calls, but break the connection before the answer."""
        calls = _matcher(verb, resource, name)
        return self._add(calls, times, chance, error=connection_lost_error, answered=True, optional=optional)

    def delay(
        self,
        seconds: float,
        verb: str = "",
        resource: str = "",
        *,
        name: str = "",
        times: int | None = 1,
        optional: bool = False,
    ) -> Fault:
        """Delay the next calls before they reach the server."""
        return self._add(_matcher(verb, resource, name), times, delay=seconds, optional=optional)

    def drop_watches(self, resource: str = "") -> int:
        """Break all open watches of a resource now; returns their number."""
        matcher = _matcher(resource=resource)
        self._check(matcher)
        found = [one for one, call in self._watches.items() if matcher.matches_resource(call.resource.group_resource)]
        for one in found:
            if not one.done():
                one.set_result(None)
        return len(found)

    def expire_watches(self, resource: str = "") -> int:
        """Break watches and let them fail with Expired when reopened, so that clients relist."""
        dropped = self.drop_watches(resource)
        self.fail("watch", resource, lambda _: errors.expired(), times=dropped, optional=True)
        return dropped

    def clear(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    def _add(
        self,
        calls: CallMatcher,
        times: int | None,
        chance: float = 1.0,
        *,
        error: ErrorOf | None = None,
        delay: float = 0.0,
        answered: bool = False,
        optional: bool = False,
    ) -> Fault:
        self._check(calls)
        fault = Fault(
            calls=calls, times=times, chance=chance, error=error, delay=delay, answered=answered, optional=optional
        )
        self._faults.append(fault)
        self._all.append(fault)
        return fault

    @property
    def are_possible(self) -> bool:
        """True if a call can be hit now."""
        return self.plan is not None or any(one.times != 0 for one in self._faults)

    def _check(self, calls: CallMatcher) -> None:
        """Raise ValueError for a verb or resource that no call can have."""
        for verb in calls.verbs:
            if verb not in VERBS:
                raise ValueError(f"unknown verb {verb!r}{_hint(verb, VERBS)} Verbs are {', '.join(sorted(VERBS))}")
        known = self._resources() if calls.resources else ()
        for resource in calls.resources:
            if resource not in known:
                hint = _hint(resource, known)
                raise ValueError(
                    f"the server does not serve {resource!r}{hint} Name a resource by its plural, optionally with its "
                    "group (deployments.apps); serve a custom kind first: cluster.define(kind)"
                )

    def unused(self) -> list[Fault]:
        """Return the faults that no call has matched, without the optional ones."""
        return [one for one in self._all if not one.matched and not one.optional]

    @property
    def are_lasting(self) -> bool:
        """True if calls are hit without end: reconciles may fail for as long."""
        return self.plan is not None or any(one.times is None and one.hits for one in self._faults)

    def match(self, call: Call) -> Fault | None:
        """Return the fault that hits this call, if any."""
        for fault in self._faults:
            if fault.strikes(call, self._random):
                return fault
        return self._plan_fault(call) if self.plan is not None else None

    def _plan_fault(self, call: Call) -> Fault | None:
        """Return the chaos plan's fault for a call."""
        assert self.plan is not None
        struck = self.plan.fault_of(_USER, call.verb, call.resource.group_resource, call.name)
        if struck is None:
            return None
        return Fault(
            calls=CallMatcher(),
            times=0,
            chance=1.0,
            error=_error_of(struck),
            delay=struck.delay,
            answered=struck.drops_response,
        )

    def event_delay(self, call: Call) -> float:
        """Return the delay of a watch's next events in seconds."""
        return 0.0 if self.plan is None else self.plan.event_delay(_USER, call.resource.group_resource)

    def register_watch(self, call: Call) -> asyncio.Future[None]:
        """Register a watch; the returned future is set when it shall break."""
        broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watches[broken] = call
        return broken

    def unregister_watch(self, broken: asyncio.Future[None]) -> None:
        """Unregister a watch."""
        del self._watches[broken]


class FaultyTransport:
    """Transport that applies the faults."""

    def __init__(self, inner: ClientTransport, faults: ClusterFaults) -> None:
        self._inner = inner
        self._faults = faults

    async def call(self, call: Call) -> Any:
        """Make a call, unless a fault hits it."""
        fault = self._faults.match(call)
        if fault is None:
            return await self._inner.call(call)
        if fault.delay:
            await asyncio.sleep(fault.delay)
        answer = await self._inner.call(call) if fault.error is None or fault.answered else None
        if fault.error is not None:
            raise fault.error(call)
        return answer

    async def commit_together(self, call: Call, names: Sequence[str]) -> list[str]:
        """Make a write for several objects in one commit, unless a fault could hit one of them."""
        return [""] * len(names) if self._faults.are_possible else await commit_together(self._inner, call, names)

    async def watch(self, call: Call) -> AsyncIterator[Sequence[WatchEvent]]:
        """Watch until a fault breaks it."""
        fault = self._faults.match(call)
        if fault is not None:
            await asyncio.sleep(fault.delay)
            if fault.error is not None:
                raise fault.error(call)
        batches = self._inner.watch(call)
        broken = self._faults.register_watch(call)
        watch = _RelayedWatch(batches, broken)
        try:
            while batch := await watch.next_batch():
                if delay := self._faults.event_delay(call):
                    await asyncio.sleep(delay)
                yield batch
            if broken.done():
                raise connection_lost_error(call)
        finally:
            self._faults.unregister_watch(broken)
            await watch.close()
            await batches.aclose()  # type: ignore[attr-defined]  # an async generator

    def is_in_process(self, resource: Resource) -> bool:
        """Return the wrapped transport's answer."""
        return self._inner.is_in_process(resource)

    def discovery_version(self) -> object | None:
        """Return the wrapped transport's edition."""
        return self._inner.discovery_version()

    def stream(self, call: Call) -> AsyncIterator[bytes]:
        """Stream through the wrapped transport."""
        return self._inner.stream(call)

    async def document(self, path: str) -> Any:
        """Return the wrapped transport's document."""
        return await self._inner.document(path)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._inner.close()


class _RelayedWatch:
    """Relays the batches of a watch until it ends or is to break, with one task for the whole watch."""

    def __init__(self, batches: AsyncIterator[Sequence[WatchEvent]], broken: asyncio.Future[None]) -> None:
        self._batches = batches
        self._broken = broken
        self._received: deque[Sequence[WatchEvent]] = deque()
        self._changed = asyncio.Event()
        self._relay = asyncio.ensure_future(self._receive())
        self._relay.add_done_callback(self._wake)
        broken.add_done_callback(self._wake)

    async def next_batch(self) -> Sequence[WatchEvent]:
        """Return the next batch; empty at the end, and when it is to break. Raises the watch's error."""
        while not (self._broken.done() or self._received or self._relay.done()):
            self._changed.clear()
            await self._changed.wait()
        if self._broken.done():
            return ()
        if self._received:
            return self._received.popleft()
        self._relay.result()
        return ()

    async def close(self) -> None:
        """End the watch."""
        self._relay.cancel()
        await asyncio.gather(self._relay, return_exceptions=True)

    async def _receive(self) -> None:
        async for batch in self._batches:
            self._received.append(batch)
            self._changed.set()

    def _wake(self, _: asyncio.Future[None]) -> None:
        self._changed.set()
