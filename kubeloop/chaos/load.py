# SPDX-License-Identifier: Apache-2.0
"""Load generator: clients that write, read and watch during faults, and record all results."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.requests import Call, Verb, WatchEvent
from kubeloop.chaos.checks.availability import ClientAttempt, Failure
from kubeloop.chaos.checks.history import Action, ClientOperation, Outcome
from kubeloop.chaos.checks.watch_order import SeenEvent
from kubeloop.chaos.faults.call_faults import is_injected
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.client.errors import ClientError, ConnectError, ConnectionLost
from kubeloop.client.transport import ClientTransport
from kubeloop.clock import Clock

NAMESPACE = "default"
LAST_KEY = "the-end"
_LABEL = {"made-by": "chaos"}
_SELECTOR = "made-by=chaos"
_CALL_WITHIN = 5.0
_SILENT_FOR = 8.0
PAUSE = 0.05
_BREATHER = 0.15  # pause after a failure: leaves the CPU to restarting processes
_MARK = "mark"
_CONFIG_MAPS = resource_of_class(ConfigMap)
FAILURES = (errors.ApiError, ClientError, TimeoutError)


class LoadRecords:
    """Records of all clients; their timeout, and the faults expected on their calls."""

    def __init__(self, clock: Clock, patience: float, loses_answers: Callable[[Action], bool]) -> None:
        self.clock = clock
        self.patience = patience
        self.loses_answers = loses_answers
        self.operations: list[ClientOperation] = []
        self.attempts: list[ClientAttempt] = []
        self.watches: dict[str, list[SeenEvent]] = {}


def _call(verb: Verb, name: str = "", *, body: Any = None, **options: str) -> Call:
    return Call(
        verb=verb, resource=_CONFIG_MAPS, namespace=NAMESPACE, name=name, body=body, options=options, timeout=None
    )


def _marked(name: str, mark: str, version: str = "") -> ConfigMap:
    meta = ObjectMeta(name=name, namespace=NAMESPACE, labels=_LABEL, resource_version=version)
    return ConfigMap(metadata=meta, data={_MARK: mark})


class LoadWorker:
    """Client that makes one call after the other."""

    def __init__(
        self, name: str, transport: ClientTransport, notes: LoadRecords, chance: random.Random, keys: int
    ) -> None:
        self._name = name
        self._transport = transport
        self._notes = notes
        self._chance = chance
        self._keys = [f"object-{number}" for number in range(keys)]
        self._count = 0
        self._is_failing = False

    async def work(self, stop: asyncio.Event) -> None:
        """Work until stopped."""
        while not stop.is_set():
            key = self._chance.choice(self._keys)
            await self._once(key)
            await asyncio.sleep(self._chance.uniform(0, PAUSE) + (_BREATHER if self._is_failing else 0.0))

    async def _once(self, key: str) -> None:
        found = await self._do(key, "get", _call("get", key))
        if self._chance.random() < 0.4:
            return
        self._count += 1
        mark = f"{self._name}.{self._count}"
        if found is None or self._chance.random() < 0.05:
            await self._do(key, "create", _call("create", body=_marked(key, mark)), mark)
        elif self._chance.random() < 0.15:
            await self._do(key, "delete", _call("delete", key))
        else:
            body = _marked(key, mark, found.metadata.resource_version)
            await self._do(key, "update", _call("update", key, body=body), mark, expected=_mark_of(found))

    async def _do(self, key: str, action: Action, call: Call, mark: str = "", expected: str = "") -> Any:
        """Make a call and record it; returns the object of a get."""
        called = self._notes.clock.monotonic()
        answer: Any = None
        outcome: Outcome | None = "ok"
        error: Exception | None = None
        try:
            async with asyncio.timeout(self._notes.patience):
                answer = await self._transport.call(call)
        except FAILURES as failure:
            outcome, error = _outcome_of(failure), failure
        returned = self._notes.clock.monotonic()
        self._note_attempt(action, called, returned, error)
        if outcome is None or (outcome == "unknown" and action == "get"):
            return None  # nothing was sent, or the outcome is unknown
        seen = _mark_of(answer) if action == "get" and answer is not None else mark
        self._notes.operations.append(
            ClientOperation(
                key=key,
                action=action,
                outcome=outcome,
                called=called,
                returned=returned,
                mark=seen,
                expected=expected,
                client=self._name,
            )
        )
        return answer if action == "get" else None

    def _note_attempt(self, action: Action, called: float, returned: float, error: Exception | None) -> None:
        failure = failure_of(error)
        self._is_failing = bool(failure)
        self._notes.attempts.append(
            ClientAttempt(
                client=self._name,
                action=action,
                called=called,
                returned=returned,
                failure=failure,
                message=f"{type(error).__name__} {error}" if failure else "",
                on_purpose=isinstance(error, ConnectionLost) and self._notes.loses_answers(action),
            )
        )


def _mark_of(found: ConfigMap) -> str:
    return found.data.get(_MARK, "")


def _outcome_of(error: BaseException) -> Outcome | None:
    """Return the outcome that a failure implies; None if the request certainly never arrived."""
    if isinstance(error, ConnectError) or (isinstance(error, errors.ApiError) and is_injected(error)):
        return None
    if isinstance(error, errors.AlreadyExists):
        return "exists"
    if isinstance(error, errors.Conflict):
        return "conflict"
    if isinstance(error, errors.NotFound):
        return "missing"
    return "unknown"


def failure_of(error: Exception | None) -> Failure:
    """Classify a failure; empty for a proper answer."""
    if error is None or (isinstance(error, errors.ApiError) and is_injected(error)):
        return ""
    if isinstance(error, ConnectError | ConnectionLost):
        return "broken"
    if isinstance(error, TimeoutError):
        return "late"
    return "" if _outcome_of(error) != "unknown" else "refused"


class LoadWatcher:
    """Client that watches, and resumes whenever its watch ends or becomes silent."""

    def __init__(self, name: str, transport: ClientTransport, notes: LoadRecords) -> None:
        self._transport = transport
        self._seen = notes.watches.setdefault(name, [])
        self._version = ""
        self.expired = False  # True if it had to relist, and so may have missed events
        self.has_seen_the_end = asyncio.Event()

    async def begin(self) -> None:
        """Get the start version, before anything is written."""
        found = await call_until_answered(self._transport, _call("list", labelSelector=_SELECTOR))
        self._version = found.resource_version

    async def watch(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                async with aclosing(self._batches()) as batches:
                    async for batch in batches:
                        self._take(batch)
            except errors.Expired:
                self.expired = True
                await self.begin()
            except FAILURES:
                await asyncio.sleep(PAUSE)

    async def _batches(self) -> AsyncGenerator[Sequence[WatchEvent], None]:
        options = {"labelSelector": _SELECTOR, "resourceVersion": self._version, "allowWatchBookmarks": "true"}
        async with aclosing(self._transport.watch(_call("watch", **options, timeoutSeconds="20"))) as batches:  # type: ignore[type-var]
            while True:
                try:
                    async with asyncio.timeout(_SILENT_FOR):
                        yield await anext(batches)
                except StopAsyncIteration:
                    return

    def _take(self, batch: Sequence[WatchEvent]) -> None:
        for event in batch:
            self._version = event.resource_version
            if event.type == "BOOKMARK":
                continue
            found = event.object
            if found.metadata.name == LAST_KEY:
                self.has_seen_the_end.set()
                continue
            self._seen.append(
                SeenEvent(
                    type=event.type,
                    key=found.metadata.name,
                    mark=_mark_of(found),
                    revision=int(event.resource_version),
                )
            )


async def call_until_answered(transport: ClientTransport, call: Call) -> Any:
    """Retry a call until it is answered: calls may still fail by injected faults."""
    while True:
        try:
            async with asyncio.timeout(_CALL_WITHIN):
                return await transport.call(call)
        except errors.AlreadyExists:
            raise
        except FAILURES:
            await asyncio.sleep(PAUSE)


async def finish_load(transport: ClientTransport) -> dict[str, str]:
    """Write the last object, which ends the watchers; returns the marks of all others."""
    with suppress(errors.AlreadyExists):
        await call_until_answered(transport, _call("create", body=_marked(LAST_KEY, "end")))
    found = await call_until_answered(transport, _call("list", labelSelector=_SELECTOR))
    return {one.metadata.name: _mark_of(one) for one in found.items if one.metadata.name != LAST_KEY}
