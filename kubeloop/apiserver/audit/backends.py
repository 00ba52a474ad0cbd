# SPDX-License-Identifier: Apache-2.0
"""Audit backends: log file and webhook, each blocking or batched, with events truncated if they are too large.

events ─▶ TruncateBackend ─▶ BufferedBackend or BlockingBackend ─▶ LogBackend or WebhookBackend
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from kubeloop.api.meta.field_path import quote
from kubeloop.clock import Clock
from kubeloop.metrics import MetricValue

if TYPE_CHECKING:
    from kubeloop.apiserver.audit.log import AuditLog
    from kubeloop.apiserver.webhook_client.review_client import ReviewClient

log = logging.getLogger(__name__)

MODES: Final = ("batch", "blocking", "blocking-strict")
FORMATS: Final = ("legacy", "json")
_TRUNCATED: Final = "audit.k8s.io/truncated"
_WITH_BODIES: Final = ("Request", "RequestResponse")

AuditEvent = Mapping[str, Any]
# False if the events were not stored.
Stored = bool | Awaitable[bool]


class AuditBackend(Protocol):
    """Destination of audit events."""

    def process(self, events: Sequence[AuditEvent]) -> Stored:
        """Store events, or begin to; the result is awaitable if storing them takes time."""

    async def close(self) -> None:
        """Store what is buffered, and close files and connections."""


@dataclass(frozen=True, slots=True)
class BatchConfig:
    """Options of the batch mode; times in seconds."""

    buffer_size: int = 10_000
    max_size: int = 400
    max_wait: float = 30.0
    throttle: bool = True
    throttle_qps: float = 10.0
    throttle_burst: int = 15


LOG_BATCHES: Final = BatchConfig(max_size=1, max_wait=0.0, throttle=False, throttle_qps=0.0, throttle_burst=0)


@dataclass(frozen=True, slots=True)
class TruncateConfig:
    """Maximum sizes of events and batches, in bytes."""

    max_event_size: int = 100 * 1024
    max_batch_size: int = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class AuditWebhookConfig:
    """Configuration of the webhook backend; the time in seconds."""

    kubeconfig: Path
    initial_backoff: float = 10.0
    mode: str = "batch"
    batch: BatchConfig = BatchConfig()
    truncate: TruncateConfig | None = None


class LogBackend:
    """Writes events to the audit log, as lines of JSON or in the legacy format."""

    def __init__(self, log_file: AuditLog, format_: str = "json") -> None:
        self._log = log_file
        self._is_legacy = format_ == "legacy"

    def process(self, events: Sequence[AuditEvent]) -> bool:
        """Write the events."""
        try:
            for event in events:
                line = legacy_line(event) if self._is_legacy else msgspec.json.encode(event)
                self._log.write(line + b"\n")
        except OSError as error:
            _report("log", str(error), events)
            return False
        return True

    async def close(self) -> None:
        """Close the file."""
        self._log.close()


class WebhookBackend:
    """Posts events to a webhook, and tries again with back-off."""

    def __init__(self, client: ReviewClient) -> None:
        self._client = client

    async def process(self, events: Sequence[AuditEvent]) -> bool:
        """Post the events as one EventList."""
        from kubeloop.apiserver.webhook_client.review_client import WebhookFailure

        items = [{key: value for key, value in event.items() if key not in ("kind", "apiVersion")} for event in events]
        try:
            await self._client.deliver(
                {"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": items}
            )
        except WebhookFailure as error:
            _report("webhook", str(error), events)
            return False
        return True

    async def close(self) -> None:
        """Close the connections."""
        self._client.close()


class BlockingBackend:
    """Mode `blocking`: waits for the delegate, and ignores its failures."""

    def __init__(self, delegate: AuditBackend) -> None:
        self._delegate = delegate

    def process(self, events: Sequence[AuditEvent]) -> Stored:
        """Store events; True even if that failed."""
        stored = self._delegate.process(events)
        return True if isinstance(stored, bool) else _wait_ignoring(stored)

    async def close(self) -> None:
        """Close the delegate."""
        await self._delegate.close()


class BufferedBackend:
    """Mode `batch`: buffers events and passes them on in batches, at a limited rate; drops them if the buffer is full.

    Batches are sent beside each other if the delegate takes time.
    """

    def __init__(self, delegate: AuditBackend, config: BatchConfig, clock: Clock) -> None:
        self._delegate = delegate
        self._config = config
        self._clock = clock
        self._buffer: deque[AuditEvent] = deque()
        self._arrived = asyncio.Event()
        self._closing = False
        self._sending: set[asyncio.Task[bool]] = set()
        self._tokens, self._filled_at = float(config.throttle_burst), clock.monotonic()
        self._worker = asyncio.create_task(self._run(), name="audit batches")

    def process(self, events: Sequence[AuditEvent]) -> bool:
        """Buffer events; True even if the buffer is full."""
        for index, event in enumerate(events):
            if self._closing or len(self._buffer) >= self._config.buffer_size:
                _report("buffered", "audit backend shut down" if self._closing else "audit buffer queue blocked",
                        events[index:])  # fmt: skip
                break
            self._buffer.append(event)
        self._arrived.set()
        return True

    async def close(self) -> None:
        """Send all buffered events, then close the delegate."""
        self._closing = True
        self._arrived.set()
        await self._worker
        if self._sending:
            await asyncio.wait(self._sending)
        await self._delegate.close()

    async def _run(self) -> None:
        while not self._closing or self._buffer:
            await self._collect()
            size = min(len(self._buffer), self._config.max_size)
            if size:
                await self._throttle()
                self._send([self._buffer.popleft() for _ in range(size)])

    async def _collect(self) -> None:
        """Wait until a batch is full, its time is over, or the backend closes."""
        deadline = asyncio.get_running_loop().time() + self._config.max_wait
        while not self._closing and len(self._buffer) < self._config.max_size:
            self._arrived.clear()
            try:
                async with asyncio.timeout_at(deadline if self._config.max_size > 1 else None):
                    await self._arrived.wait()
            except TimeoutError:
                return

    async def _throttle(self) -> None:
        config = self._config
        if not config.throttle:
            return
        now = self._clock.monotonic()
        self._tokens = min(config.throttle_burst, self._tokens + (now - self._filled_at) * config.throttle_qps)
        self._filled_at = now
        self._tokens -= 1
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / config.throttle_qps)

    def _send(self, batch: Sequence[AuditEvent]) -> None:
        stored = self._delegate.process(batch)
        if not isinstance(stored, bool):
            task = asyncio.ensure_future(stored)
            assert isinstance(task, asyncio.Task)
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)


class TruncateBackend:
    """Removes the bodies of events that are too large, drops what is still too large, and splits large batches."""

    def __init__(self, delegate: AuditBackend, config: TruncateConfig) -> None:
        self._delegate = delegate
        self._config = config

    def process(self, events: Sequence[AuditEvent]) -> Stored:
        """Store the events in batches of limited size."""
        return _all_stored([self._delegate.process(batch) for batch in self._batches(events)])

    async def close(self) -> None:
        """Close the delegate."""
        await self._delegate.close()

    def _batches(self, events: Sequence[AuditEvent]) -> list[list[AuditEvent]]:
        batches: list[list[AuditEvent]] = []
        total = 0
        for event in events:
            size = _size(event)
            if size > self._config.max_event_size and event.get("level") in _WITH_BODIES:
                event = _without_bodies(event)
                size = _size(event)
            if size > self._config.max_event_size:
                _report("truncate", "event is too large even after truncating", [event])
                continue
            if not batches or total + size > self._config.max_batch_size:
                batches.append([])
                total = 0
            batches[-1].append(event)
            total += size
        return batches


class AuditSink:
    """Backend of all requests, and the events that are stored after their requests have ended."""

    def __init__(self, backend: AuditBackend, processed: MetricValue) -> None:
        self._backend = backend
        self._processed = processed
        self._detached: set[asyncio.Task[bool]] = set()

    def process(self, events: Sequence[AuditEvent]) -> Stored:
        """Count events, and store them."""
        self._processed.value += len(events)
        return self._backend.process(events)

    def detach(self, pending: Coroutine[Any, Any, bool]) -> None:
        """Store events beside what follows."""
        task = asyncio.create_task(pending)
        self._detached.add(task)
        task.add_done_callback(self._detached.discard)

    async def close(self) -> None:
        """Wait for detached events and close the backend."""
        if self._detached:
            await asyncio.wait(self._detached)
        await self._backend.close()


class UnionBackend:
    """Passes events on to several backends."""

    def __init__(self, backends: Sequence[AuditBackend]) -> None:
        self._backends = tuple(backends)

    def process(self, events: Sequence[AuditEvent]) -> Stored:
        """Store events in all backends; False if one of them fails."""
        return _all_stored([one.process(events) for one in self._backends])

    async def close(self) -> None:
        """Close all backends."""
        for one in self._backends:
            await one.close()


def with_mode(delegate: AuditBackend, mode: str, batch: BatchConfig, clock: Clock) -> AuditBackend:
    """Return a backend in one of MODES."""
    if mode == "blocking-strict":
        return delegate
    return BlockingBackend(delegate) if mode == "blocking" else BufferedBackend(delegate, batch, clock)


def with_truncation(delegate: AuditBackend, config: TruncateConfig | None) -> AuditBackend:
    """Return a backend that truncates events, if that is configured."""
    return delegate if config is None else TruncateBackend(delegate, config)


def legacy_line(event: AuditEvent) -> bytes:
    """Return the line of the legacy log format."""
    user, other = event.get("user", {}), event.get("impersonatedUser")
    fields = {
        "id": event.get("auditID", ""),
        "stage": event.get("stage", ""),
        "ip": next(iter(event.get("sourceIPs", ())), "<unknown>"),
        "method": event.get("verb", ""),
        "user": user.get("username") or "<none>",
        "groups": _listed(user.get("groups", ()), "<none>") if user.get("username") else "<none>",
        "as": other.get("username", "") if other is not None else "<self>",
        "asgroups": _listed(other.get("groups", ()), "<lookup>") if other is not None else "<lookup>",
        "user-agent": event.get("userAgent", ""),
        "namespace": event.get("objectRef", {}).get("namespace") or "<none>",
        "uri": event.get("requestURI", ""),
    }
    status = event.get("responseStatus")
    code = status.get("code", 0) if status is not None else "<deferred>"
    written = " ".join(f"{name}={quote(str(value))}" for name, value in fields.items())
    return f'{event.get("requestReceivedTimestamp", "")} AUDIT: {written} response="{code}"'.encode()


def _listed(groups: Sequence[str], otherwise: str) -> str:
    return ",".join(map(quote, groups)) if groups else otherwise


def _size(event: AuditEvent) -> int:
    return len(msgspec.json.encode(event)) + 1


def _without_bodies(event: AuditEvent) -> AuditEvent:
    kept = {key: value for key, value in event.items() if key not in ("requestObject", "responseObject")}
    return {**kept, "annotations": {**kept.get("annotations", {}), _TRUNCATED: "true"}}


def _all_stored(results: Sequence[Stored]) -> Stored:
    pending = [one for one in results if not isinstance(one, bool)]
    known = all(one for one in results if isinstance(one, bool))
    return _wait_all(known, pending) if pending else known


async def _wait_all(known: bool, pending: Sequence[Awaitable[bool]]) -> bool:
    return all(await asyncio.gather(*pending)) and known


async def _wait_ignoring(pending: Awaitable[bool]) -> bool:
    await pending
    return True


def _report(plugin: str, error: str, events: Sequence[AuditEvent]) -> None:
    """Log events that were lost."""
    lost = ", ".join(str(event.get("auditID", "")) for event in events)
    log.error("Error in audit plugin '%s' affecting %d audit events: %s (%s)", plugin, len(events), error, lost)
