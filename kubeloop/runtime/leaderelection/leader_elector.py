# SPDX-License-Identifier: Apache-2.0
"""Leader election on a Lease by client-go's rules, compatible with upstream's candidates.

Clocks are never compared between processes: a lease is expired when this process has seen the same record for as
long as the record says. So a leader whose renewals fail must stop before that: its fence closes `renew_deadline`
after the last renewal was *sent*, which is before any other candidate can have begun to count.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import msgspec

from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.coordination_v1 import Lease, LeaseSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.times import format_micro_time
from kubeloop.api.scalars.wire import MicroTime
from kubeloop.clock import Clock, new_uid
from kubeloop.runtime.leaderelection.fence import Fence, LeadershipLost
from kubeloop.runtime.standard_metrics import LeaderElectionMetrics

# Candidates wait up to this much longer than the retry period, so that they don't all come at once.
JITTER = 1.2
_RELEASED_SECONDS = 1
# Towards the end of the time to renew, pauses would become ever shorter.
_SHORTEST_PAUSE = 0.05

log = logging.getLogger(__name__)


class LeaseClient(Protocol):
    """Client methods that the election needs."""

    async def get(self, what: type[Lease], name: str, namespace: str = "") -> Lease:
        """Get a Lease."""

    async def create(self, obj: Any, namespace: str = "") -> Any:
        """Create a Lease."""

    async def update(self, obj: Any, namespace: str = "") -> Any:
        """Update a Lease."""


class EventSink(Protocol):
    """Receiver of election events; an `EventRecorder`."""

    def event(self, obj: Any, type: str, reason: str, message: str) -> None:
        """Record an event."""


@dataclass(frozen=True, slots=True)
class LeaseDurations:
    """Durations of the election in seconds; kube-controller-manager's defaults."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("leaseDuration must be greater than renewDeadline")
        if self.renew_deadline <= JITTER * self.retry_period:
            raise ValueError("renewDeadline must be greater than retryPeriod*JitterFactor")
        if self.lease_duration < 1:
            raise ValueError("leaseDuration must be at least one second, the resolution of a Lease")
        if self.retry_period <= 0:
            raise ValueError("retryPeriod must be greater than zero")


def new_identity(host: str, clock: Clock) -> str:
    """Return a candidate identity: the host and a unique suffix."""
    return f"{host}_{new_uid(clock)}"


class LeaderElector:
    """Candidate for one lease."""

    def __init__(
        self,
        client: LeaseClient,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        *,
        terms: LeaseDurations | None = None,
        release: bool = True,
        recorder: EventSink | None = None,
        instruments: LeaderElectionMetrics | None = None,
        on_new_leader: Callable[[str], None] | None = None,
    ) -> None:
        if not identity:
            raise ValueError("Lock identity is empty")
        self._client = client
        self._namespace, self._name = namespace, name
        self.identity = identity
        self._clock = clock
        self._terms = terms or LeaseDurations()
        self._release_at_end = release
        self._recorder = recorder
        self._instruments = instruments
        self._on_new_leader = on_new_leader
        self._lease: Lease | None = None  # as last read or written
        self._observed = LeaseSpec()
        self._observed_at = clock.monotonic()
        self._reported = ""
        self.fence = Fence(clock)

    @property
    def leader(self) -> str:
        """Holder of the lease as last observed; empty if there is none."""
        return self._observed.holder_identity or ""

    @property
    def is_leader(self) -> bool:
        """True if the observed lease names this process; the fence decides if writing is safe."""
        return self.leader == self.identity

    @property
    def term(self) -> int:
        """Number of lease transitions; it grows with every new leader."""
        return self._observed.lease_transitions or 0

    def health_error(self, tolerance: float = 20.0) -> str:
        """Return why a leader that did not renew and did not notice should be restarted; else empty."""
        age = self._clock.monotonic() - self._observed_at
        if self.is_leader and age > self._terms.lease_duration + tolerance:
            return f"failed election to renew leadership on lease {self._name}"
        return ""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait until this process leads, then call `lead`; return when `lead` does.

        Raises `LeadershipLost` when another may lead: `lead` has been cancelled and has ended by then. When this is
        cancelled itself, `lead` may still write while it ends, and only then is the lease released.
        """
        await self._acquire()
        leading = asyncio.ensure_future(lead())
        renewing = asyncio.ensure_future(self._renew_loop())
        try:
            await asyncio.wait((leading, renewing), return_when=asyncio.FIRST_COMPLETED)
            is_lost = not leading.done()
        finally:
            try:
                await _cancel_and_wait(leading)
            finally:
                renewing.cancel()
                self.fence.close()
            await self._step_down()
        if is_lost:
            raise LeadershipLost(f"{self.identity} no longer holds the lease {self._namespace}/{self._name}")
        leading.result()

    # Being a candidate, being the leader

    async def _acquire(self) -> None:
        log.info("attempting to acquire leader lease %s/%s", self._namespace, self._name)
        while True:
            if await self._try_acquire_or_renew(self._terms.renew_deadline):
                break
            await asyncio.sleep(self._retry_delay())
        log.info("successfully acquired lease %s/%s", self._namespace, self._name)
        if self._instruments is not None:
            self._instruments.is_leader.value = 1
        self._record_event("became leader")

    def _retry_delay(self) -> float:
        """Return the seconds until the next attempt, at most until the lease expires."""
        pause = self._terms.retry_period * (1 + JITTER * self._clock.random().random())
        if not self._is_held_by_another():
            return pause
        left = self._observed_at + (self._observed.lease_duration_seconds or 0) - self._clock.monotonic()
        return max(min(pause, left), _SHORTEST_PAUSE)

    async def _renew_loop(self) -> None:
        """Renew until that fails for too long, or another holds the lease."""
        while self.fence.is_open:
            await asyncio.sleep(max(min(self._terms.retry_period, self.fence.seconds_left()), _SHORTEST_PAUSE))
            if not await self._try_acquire_or_renew(self.fence.seconds_left()) and not self.is_leader:
                self.fence.close()

    async def _step_down(self) -> None:
        if self._instruments is not None:
            self._instruments.is_leader.value = 0
        self._record_event("stopped leading")
        if self._release_at_end and self.is_leader:
            try:
                async with asyncio.timeout(self._terms.renew_deadline):
                    await self._release()
            except Exception as error:
                log.warning("failed to release lease %s/%s: %s", self._namespace, self._name, error)

    async def _try_acquire_or_renew(self, seconds: float) -> bool:
        """Try once to acquire or renew the lease; failures are logged."""
        try:
            async with asyncio.timeout(seconds):
                succeeded = await self._acquire_or_renew_once()
        except Exception as error:  # the API's, the network's or the timeout's: there will be another attempt
            log.warning("lease %s/%s: %s", self._namespace, self._name, str(error) or type(error).__name__)
            succeeded = False
        self._report_leader()
        return succeeded

    # The lease

    async def _acquire_or_renew_once(self) -> bool:
        if self.is_leader and self._is_valid():
            try:
                await self._write(self._renewed_spec(self._observed))
                return True
            except Conflict:
                pass  # conflict with another writer: read it
        try:
            await self._read()
        except NotFound:
            # Deleting a lease does not stop its holder: the last observed record counts until it expires.
            if self._is_held_by_another():
                return False
            await self._create()
            return True
        if self._is_held_by_another():
            return False
        if self.is_leader:
            if self._instruments is not None:
                self._instruments.slow_path.value += 1
            await self._write(self._renewed_spec(self._observed))
        else:
            await self._write(self._takeover_spec(self._observed))
        return True

    async def _release(self) -> None:
        """Release the lease, so that the next leader need not wait for its expiry."""
        while True:
            await self._read()
            if not self.is_leader:
                return
            now = _micro_time(self._clock.now())
            released = LeaseSpec(
                holder_identity="",
                lease_duration_seconds=_RELEASED_SECONDS,
                acquire_time=now,
                renew_time=now,
                lease_transitions=self._observed.lease_transitions,
            )
            try:
                await self._write(released)
            except Conflict:
                continue
            return

    def _is_held_by_another(self) -> bool:
        return bool(self.leader) and not self.is_leader and self._is_valid()

    def _is_valid(self) -> bool:
        age = self._clock.monotonic() - self._observed_at
        return age < (self._observed.lease_duration_seconds or 0)

    def _renewed_spec(self, held: LeaseSpec) -> LeaseSpec:
        return self._spec(held.acquire_time, held.lease_transitions or 0)

    def _takeover_spec(self, left: LeaseSpec) -> LeaseSpec:
        return self._spec(None, (left.lease_transitions or 0) + 1)

    def _spec(self, acquired: MicroTime | None, transitions: int) -> LeaseSpec:
        now = _micro_time(self._clock.now())
        return LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=int(self._terms.lease_duration),
            acquire_time=acquired or now,
            renew_time=now,
            lease_transitions=transitions,
        )

    async def _read(self) -> None:
        self._observe(await self._with_request_timeout(self._client.get(Lease, self._name, self._namespace)))

    async def _create(self) -> None:
        meta = ObjectMeta(name=self._name, namespace=self._namespace)
        lease = Lease(metadata=meta, spec=self._spec(None, 0))
        await self._observe_write(self._client.create(lease, self._namespace))

    async def _write(self, spec: LeaseSpec) -> None:
        """Replace the lease that was read, if it is unchanged.

        An update instead of a patch, because the usual cluster roles allow nothing else.
        """
        lease = msgspec.structs.replace(self._lease or Lease(), spec=spec)
        await self._observe_write(self._client.update(lease, self._namespace))

    async def _observe_write(self, write: Awaitable[Lease]) -> None:
        sent = self._clock.monotonic()
        self._observe(await self._with_request_timeout(write))
        if self.is_leader:
            self.fence.open_until(sent + self._terms.renew_deadline)

    async def _with_request_timeout(self, answer: Awaitable[Lease]) -> Lease:
        """Limit one request to half of the renew deadline."""
        async with asyncio.timeout(self._terms.renew_deadline / 2):
            return await answer

    def _observe(self, lease: Lease) -> None:
        self._lease = lease
        if lease.spec != self._observed:
            self._observed = lease.spec
            self._observed_at = self._clock.monotonic()

    # Reporting

    def _report_leader(self) -> None:
        if self.leader != self._reported:
            self._reported = self.leader
            log.info("new leader elected: %s", self.leader)
            if self._on_new_leader is not None:
                self._on_new_leader(self.leader)

    def _record_event(self, what: str) -> None:
        if self._recorder is not None and self._lease is not None:
            about = Lease(metadata=self._lease.metadata)
            self._recorder.event(about, "Normal", "LeaderElection", f"{self.identity} {what}")


def _micro_time(moment: datetime) -> MicroTime:
    return MicroTime(format_micro_time(moment))


async def _cancel_and_wait(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait until it is over, however it ends."""
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not log it
