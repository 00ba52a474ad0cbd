# SPDX-License-Identifier: Apache-2.0
"""Controller: the one worker implementation: takes keys, reconciles them, retries, reports health and metrics."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from kubeloop.api import errors
from kubeloop.api.kinds import Resource
from kubeloop.client.errors import ClientError
from kubeloop.clock import Clock
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.causes import cause as causes
from kubeloop.runtime.causes.cause import Cause, Origin
from kubeloop.runtime.causes.journal import Journal
from kubeloop.runtime.informer.event_handlers import ResourceEventHandler
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import EnqueueHandler, KeysOf, Predicate, controller_key
from kubeloop.runtime.queue.workqueue import Item, WorkQueue
from kubeloop.runtime.standard_metrics import register_reconcile_metrics
from kubeloop.runtime.structured_log import LogMessage

Key = TypeVar("Key", bound=Hashable)
Phase = Literal["not started", "waiting for caches", "running", "ended"]

WORKERS = 5  # upstream's default for most loops
STUCK_AFTER = 300.0  # every call has a deadline, so a normal reconcile ends long before
UNSYNCED_AFTER = 120.0  # controller-runtime's cache sync timeout
KEYS_PER_TURN = 64  # keys that a worker processes before it yields to the event loop
STALE_TRIES = 5  # after so many retries a stale cache is not the cause

# A reconcile saw an older state than the server: not an error of the loop, and over as soon as the cache has caught up.
_STALE = (errors.Conflict, errors.NotFound, errors.AlreadyExists)

# Errors that Python raises, and no server.
_DEFECTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    NotImplementedError,
    TypeError,
    ValueError,
)

logger = logging.getLogger(__name__)


class TerminalError(Exception):
    """Error that is not retried: the key waits until a new event enqueues it."""


class Result(msgspec.Struct, frozen=True):
    """Result of a successful reconcile."""

    requeue_after: float | None = None  # seconds


Reconcile = Callable[[Key], Awaitable[Result | None]]


class InformerSource(Protocol):
    """Informer interface that a controller needs."""

    @property
    def resource(self) -> Resource:
        """Resource of the informer."""

    @property
    def has_synced(self) -> bool:
        """True once the cache is filled."""

    async def wait_synced(self) -> Any:
        """Wait until the cache holds the state of the first list."""

    def add_handler(self, handler: ResourceEventHandler, resync: float = 0.0) -> Any:
        """Add a handler: called for all present objects, every change, and all objects each resync period."""

    def add_reader(self) -> None:
        """Register a user of the cache without a handler."""


class ReconcileFailure(NamedTuple):
    """Last error of a key that has failed at every try since it last succeeded."""

    tries: int
    error: str
    is_defect: bool  # an error of the program such as a TypeError: no controller raises one to be called again


class Health(NamedTuple):
    """Health of a controller, with the reason if it is unhealthy."""

    ok: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Metrics registry and journal shared by all controllers of a process."""

    registry: MetricRegistry = field(default_factory=MetricRegistry)
    journal: Journal = field(default_factory=Journal)


class ControllerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of a controller's state."""

    name: str
    phase: Phase
    healthy: bool
    why: str
    workers: int
    active: int
    depth: int
    delayed: int
    reconciles: int
    errors: int
    busy_seconds: float  # spent in reconciles, all workers together
    last_error: str
    last_error_key: str


class Controller(Generic[Key]):
    """Calls `reconcile` with each queued key: several keys concurrently, one key never twice at once.

    Exceptions of a reconcile are caught and counted, and the key is retried with growing delays. A worker that is
    cancelled in the middle of a key puts it back, so that `run` may be called again without losing any.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile[Key],
        clock: Clock,
        *,
        workers: int = WORKERS,
        timeout: float | None = None,
        queue: WorkQueue[Key] | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        telemetry = telemetry or Telemetry()
        _check_is_async(name, reconcile)
        self.name = name
        self.queue: WorkQueue[Key] = queue or WorkQueue(clock, name=name, registry=telemetry.registry)
        self.phase: Phase = "not started"
        self._reconcile = reconcile
        self._clock = clock
        self._workers = workers
        self._timeout = timeout
        self._sources: list[InformerSource] = []
        self.journal = telemetry.journal
        self._metrics = register_reconcile_metrics(telemetry.registry, name, workers, lambda: self.queue.running)
        self._phase_since = clock.monotonic()
        self._reconciles = 0
        self._errors = 0
        self._busy_seconds = 0.0
        self._last_error = ("", "")  # the key, and what went wrong
        self._failures: dict[Key, ReconcileFailure] = {}  # keys that wait for a retry

    # -- wiring

    def watches(
        self,
        source: InformerSource,
        keys_of: KeysOf[Key],
        predicate: Predicate | None = None,
        *,
        resync: float = 0.0,
        delay: float = 0.0,
    ) -> None:
        """Enqueue the keys that `keys_of` returns for each change that passes the predicate.

        With a delay, changes within it enqueue a key once.
        """
        self._sources.append(source)
        source.add_handler(EnqueueHandler(self.queue, source.resource.kind, keys_of, predicate, delay), resync)

    def add_event_handler(self, source: InformerSource, handler: ResourceEventHandler, *, resync: float = 0.0) -> None:
        """Add a custom handler, which puts keys into the queue itself."""
        self._sources.append(source)
        source.add_handler(handler, resync)

    def require_synced(self, source: InformerSource) -> None:
        """Require that a cache is synced before the first key; its changes enqueue nothing."""
        self._sources.append(source)
        source.add_reader()

    def owns(
        self: Controller[ObjectKey], source: InformerSource, owner: Resource, predicate: Predicate | None = None
    ) -> None:
        """Enqueue the controlling owner of changed objects, if it is of this kind."""
        self.watches(source, controller_key(owner), predicate)

    # -- running

    async def run(self) -> None:
        """Wait for the caches, then work until the queue is shut down and empty, or until cancelled."""
        if self.phase in ("waiting for caches", "running"):
            raise RuntimeError(f"{self.name} is already running")
        try:
            self._enter("waiting for caches")
            for source in self._sources:
                await source.wait_synced()
            self._enter("running")
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self._work(), name=f"{self.name}-{number}")
        finally:
            self._enter("ended")

    async def drain(self, grace: float) -> bool:
        """Accept no more keys and finish those that wait; return True if done within the grace period.

        `run` returns then; otherwise the waiting keys are dropped, and cancelling `run` ends the rest.
        """
        self.queue.shut_down(drain=self.phase == "running")  # without running workers nothing would be drained
        try:
            async with asyncio.timeout(grace):
                await self.queue.wait_drained()
        except TimeoutError:
            self.queue.shut_down(drain=False)
            return False
        return True

    async def _work(self) -> None:
        turn, worker = 0, asyncio.current_task()
        assert worker is not None, "workers must be tasks"
        while (item := await self.queue.get()) is not None:
            await self._process(item)
            if worker.cancelling():  # and the reconcile has swallowed that
                raise asyncio.CancelledError
            turn += 1
            if turn % KEYS_PER_TURN == 0:
                await asyncio.sleep(0)

    async def _process(self, item: Item[Key]) -> None:
        key = item.key
        cause = Cause(self.name, key, item.origins)
        token = causes.set_current(cause)
        try:
            result = await self._attempt(item)
        except BaseException:  # this worker is being stopped; the key's work isn't done
            self.queue.add(key, item.origins, item.priority)
            raise
        finally:
            causes.reset_current(token)
            seconds = self.queue.done(key)
        self._record(cause, result, seconds)

    async def _attempt(self, item: Item[Key]) -> str:
        """Reconcile a key and requeue it if needed; return the result label for metrics."""
        try:
            if self._timeout is None:
                answer = await self._reconcile(item.key)
            else:
                answer = await self._reconcile_with_timeout(item.key, self._timeout)
            after = None if answer is None else answer.requeue_after
        except TerminalError as error:
            return self._give_up(item, error)
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            return self._retry(item, error)  # something that it waited for was cancelled; this worker wasn't
        except Exception as error:
            return self._retry(item, error)
        self._forget(item.key)
        if after is None:
            return "success"
        self.queue.add_after(item.key, after, (self._requeue_origin(item.key),))
        return "requeue_after"

    async def _reconcile_with_timeout(self, key: Key, seconds: float) -> Result | None:
        try:
            async with asyncio.timeout(seconds) as limit:
                return await self._reconcile(key)
        except TimeoutError:
            if not limit.expired():
                raise
            self._metrics.timeouts.value += 1
            raise TimeoutError(f"timed out after {seconds:g} s") from None

    # -- what went wrong

    def _retry(self, item: Item[Key], error: BaseException) -> str:
        key = item.key
        stale = _is_stale(error) and self.queue.num_requeues(key) < STALE_TRIES
        delay = self.queue.add_rate_limited(key, item.origins, item.priority)
        self._failures[key] = ReconcileFailure(self.queue.num_requeues(key), _text_of(error), _is_defect(error))
        if stale:
            logger.debug(self._failure("Reconcile met a conflict", key, error, retryAfter=f"{delay:.3f}s"))
            return "requeue"
        self._log_error(key, error)
        if isinstance(error, errors.ApiError) and error.is_namespace_terminating:
            logger.info(self._failure("Reconcile stopped in a terminating namespace", key, error))
        else:
            expected = isinstance(error, ClientError | errors.ApiError)
            message = self._failure("Reconcile failed", key, error, retryAfter=f"{delay:.3f}s")
            logger.warning(message, exc_info=None if expected else error)
        return "error"

    def _forget(self, key: Key) -> None:
        self.queue.forget(key)
        if self._failures:
            self._failures.pop(key, None)

    def _give_up(self, item: Item[Key], error: TerminalError) -> str:
        self._forget(item.key)
        self._metrics.terminal_errors.value += 1
        self._log_error(item.key, error)
        logger.error(self._failure("Reconcile failed for good", item.key, error))
        return "error"

    def _failure(self, text: str, key: Key, error: BaseException, **more: str) -> LogMessage:
        """Return the log message of a failed reconcile."""
        reason = error.reason if isinstance(error, errors.ApiError) else None
        return LogMessage(text, controller=self.name, object=key, reason=reason, **more, err=error)

    def _log_error(self, key: Key, error: BaseException) -> None:
        self._errors += 1
        self._metrics.errors.value += 1
        self._last_error = (str(key), _text_of(error))

    # -- reporting

    def health(self) -> Health:
        """Return unhealthy if a reconcile hangs or the caches do not sync; failing reconciles do not count."""
        if self.phase == "waiting for caches":
            waited = self._clock.monotonic() - self._phase_since
            if waited > UNSYNCED_AFTER:
                missing = ", ".join(source.resource.group_resource for source in self.unsynced)
                return Health(False, f"waiting for {waited:.0f} s to list {missing}")
        oldest = self.queue.oldest_running()
        if oldest is not None and oldest[1] > STUCK_AFTER:
            return Health(False, f"stuck for {oldest[1]:.0f} s on {oldest[0]}")
        return Health(True)

    @property
    def failures(self) -> Mapping[Key, ReconcileFailure]:
        """Keys whose last try failed and that wait for the next one."""
        return self._failures

    @property
    def unsynced(self) -> tuple[InformerSource, ...]:
        """Informers that the controller waits for before its first key."""
        return tuple(one for one in self._sources if not one.has_synced)

    def status(self) -> ControllerStatus:
        """Return a summary of the state."""
        ok, why = self.health()
        key, error = self._last_error
        return ControllerStatus(
            name=self.name,
            phase=self.phase,
            healthy=ok,
            why=why,
            workers=self._workers,
            active=self.queue.running,
            depth=self.queue.depth,
            delayed=self.queue.delayed,
            reconciles=self._reconciles,
            errors=self._errors,
            busy_seconds=self._busy_seconds,
            last_error=error,
            last_error_key=key,
        )

    def _record(self, cause: Cause, result: str, seconds: float) -> None:
        self._reconciles += 1
        self._busy_seconds += seconds
        self._metrics.results[result].value += 1
        self._metrics.seconds(seconds)
        self.journal.append(self._clock.now(), cause, result, seconds)
        if cause.writes and logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s: %s wrote %s because of %s", self.name, cause.key, cause.writes, cause.text)

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self._phase_since = self._clock.monotonic()

    def _requeue_origin(self, key: Key) -> Origin:
        if isinstance(key, ObjectKey):
            return Origin(self.name, key.namespace, key.name, "", "requeue")
        return Origin(self.name, "", str(key), "", "requeue")


def _check_is_async(name: str, reconcile: Callable[..., object]) -> None:
    """Raise TypeError for a plain function, unless its annotation says that it returns an awaitable."""
    plain = inspect.unwrap(reconcile.func if isinstance(reconcile, partial) else reconcile)
    called = plain if inspect.isroutine(plain) else type(plain).__call__
    returned = str(getattr(called, "__annotations__", {}).get("return", ""))
    if any(map(inspect.iscoroutinefunction, (plain, called))) or "Awaitable" in returned or "Coroutine" in returned:
        return
    raise TypeError(
        f"the reconcile function of {name} is not async: write `async def reconcile(key)`, or annotate that it "
        "returns an Awaitable"
    )


def _text_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _is_defect(error: BaseException) -> bool:
    """Return True if an error, or one of a group, shows a defect of the program."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_defect, error.exceptions))
    return isinstance(error, _DEFECTS)


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_stale(error: BaseException) -> bool:
    """Return True if an error, or each of a group, is due to a stale cache only."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(_STALE)[1] is None
    return isinstance(error, _STALE)
