# SPDX-License-Identifier: Apache-2.0
"""Executes a plan on a control plane under load, and checks the guarantees.

plan ─ moments ─▶ disturb one process, undo it ─────────────────┐
clients ─ operations ──────────────────────────────────────────┼─▶ report: guarantees and violations
watchers ─ events ─────────────────────────────────────────────┘
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from kubeloop.chaos.call_matcher import CallMatcher
from kubeloop.chaos.checks.availability import check_availability, check_exits, check_recoveries
from kubeloop.chaos.checks.elections import LEASES, ElectionWatcher
from kubeloop.chaos.checks.fault_timeline import FaultTimeline, Kind, ProcessOutage, Span
from kubeloop.chaos.checks.history import Action
from kubeloop.chaos.checks.leadership import check_leadership
from kubeloop.chaos.checks.linearizability import violations
from kubeloop.chaos.checks.time_constants import TimeConstants
from kubeloop.chaos.checks.watch_order import watch_problems
from kubeloop.chaos.faults.clocks import ProcessClocks
from kubeloop.chaos.faults.membership import MemberReplaceError
from kubeloop.chaos.faults.partition import Network
from kubeloop.chaos.faults.process_faults import (
    GuaranteeViolated,
    damage_store,
    fill_disk,
    kill_process,
    kind_of,
    lose_data,
    partition_process,
    set_clock,
    suspend_process,
)
from kubeloop.chaos.load import LoadRecords, LoadWatcher, LoadWorker, finish_load
from kubeloop.chaos.plan import (
    ChaosPlan,
    ClockJump,
    CorruptStore,
    DiskFull,
    FaultOccurrence,
    Kill,
    LoseData,
    LostAnswers,
    OnCalls,
    Partition,
    Pause,
    Slow,
)
from kubeloop.chaos.plane import CannotRun, ChaosPlane, FaultInjection
from kubeloop.chaos.report import Report
from kubeloop.client.config.server_config import load_config
from kubeloop.client.http.transport import HttpTransport
from kubeloop.clock import Clock

_SETTLES_WITHIN = 60.0
# More tries in a row hardly ever fail by chance, where a few in a hundred do.
_LOST_TRIES = 3
_LOOK_EVERY = 0.25
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RunDependencies:
    """Dependencies of a run."""

    pace: TimeConstants
    network: Network | None = None


class ChaosRun:
    """Single execution of a plan."""

    def __init__(self, plan: ChaosPlan, folder: Path, clock: Clock, tell: Tell, around: RunDependencies) -> None:
        self._plan = plan
        self._pace, self._network = _pace_under(plan, around.pace), around.network
        self._clock = clock
        self._tell = tell
        self._moments = [moment for moment in plan.schedule() if moment.target]  # all else is for API servers to do
        folder.mkdir(parents=True, exist_ok=True)
        self._clocks = ProcessClocks(folder) if any(isinstance(fault, ClockJump) for fault in plan.faults) else None
        around_it = FaultInjection(self._network, self._clocks, _for_calls(plan, folder))
        self._plane = ChaosPlane(folder, plan.plane, 0, around_it)
        self._began = 0.0
        self._broken: list[str] = []
        self._notes = LoadRecords(clock, self._pace.client_timeout, partial(_loses_answers, plan))
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._told: list[str] = []
        self._outages: list[ProcessOutage] = []
        self._ends: list[tuple[str, float]] = []  # process that exited, and the time
        self._longest_stall = 0.0  # measured in this process, as a sample of all
        for moment in self._moments:
            self._disturbance(moment)

    async def run(self) -> Report:
        """Execute the plan; raises CannotRun if the control plane does not start."""
        try:
            await self._plane.start()
            async with AsyncExitStack() as stack:
                return await self._under_load(stack)
        finally:
            await self._plane.kill()

    async def _under_load(self, stack: AsyncExitStack) -> Report:
        load, seed = self._plan.load, self._plan.seed
        began = self._clock.monotonic()
        watchers = [LoadWatcher(f"w{number}", self._transport(stack), self._notes) for number in range(load.watchers)]
        elections = ElectionWatcher(self._transport(stack), self._clock, _wrong_by(self._plan))
        for begin in (elections.begin, *(watcher.begin for watcher in watchers)):
            await begin()
        workers = [
            LoadWorker(f"c{number}", self._transport(stack), self._notes, random.Random(f"{seed}/c{number}"), load.keys)
            for number in range(load.clients)
        ]
        stop = asyncio.Event()
        others = (elections.watch(), self._start_again())
        beside = [asyncio.create_task(work) for work in (*(watcher.watch() for watcher in watchers), *others)]
        working = [asyncio.create_task(worker.work(stop)) for worker in workers]
        try:
            await self._disturb()
            await self._wait_for_operations(load.operations)
            stop.set()
            await asyncio.gather(*working)
            present = await self._settle(watchers, elections, self._transport(stack))
        finally:
            for task in (*beside, *working):
                task.cancel()
            await asyncio.gather(*beside, *working, return_exceptions=True)
        problems = [*self._broken, *map(str, violations(self._notes.operations))]
        problems += watch_problems(self._notes.watches, self._notes.operations, present)
        problems += ["a watcher had to relist" for watcher in watchers if watcher.expired]
        return self._check(problems, elections, Span(began, self._clock.monotonic()))

    async def _wait_for_operations(self, count: int) -> None:
        """Wait until so many calls have succeeded; raise CannotRun if they do not."""
        try:
            async with asyncio.timeout(_SETTLES_WITHIN):
                while sum(operation.outcome == "ok" for operation in self._notes.operations) < count:  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_EVERY)
        except TimeoutError:
            raise CannotRun(
                f"fewer than {count} calls have succeeded {_SETTLES_WITHIN:g} s after the last disturbance"
            ) from None

    def _transport(self, stack: AsyncExitStack) -> HttpTransport:
        transport = HttpTransport(load_config(str(self._plane.kubeconfig)), self._clock)
        stack.push_async_callback(transport.close)
        return transport

    # -- fault injection ----------------------------------------------------------------------------------------------

    async def _disturb(self) -> None:
        self._began = began = self._clock.monotonic()
        async with asyncio.TaskGroup() as group:
            for moment in self._moments:
                await asyncio.sleep(max(0.0, began + moment.at - self._clock.monotonic()))
                group.create_task(self._inject(moment))
            await asyncio.sleep(max(0.0, began + self._plan.duration - self._clock.monotonic()))

    async def _inject(self, moment: FaultOccurrence) -> None:
        """Inject one fault and undo it; a process has one fault at a time."""
        async with AsyncExitStack() as turns:
            if isinstance(moment.fault, LoseData):  # not before the last member that lost its data has recovered
                await turns.enter_async_context(self._turns["lose-data"])
            await turns.enter_async_context(self._turns[moment.target])
            began = self._clock.monotonic()
            self._told.append(f"{moment.at:.1f} s: {type(moment.fault).__name__.lower()} {moment.target}")
            self._tell(self._told[-1])
            try:
                async with self._disturbance(moment):
                    await asyncio.sleep(moment.until - moment.at)
            except (GuaranteeViolated, MemberReplaceError) as broken:
                self._broken.append(str(broken))
            kind = kind_of(moment, with_etcd=bool(self._plan.plane.etcd))
            is_server = moment.target in (*self._plane.members["etcd"], *self._plane.members["apiserver"])
            if kind is not None and is_server:
                await self._record_outage(moment.target, kind, began, is_new=isinstance(moment.fault, LoseData))
        if kind is not None and not is_server:  # which is no reason to leave it in peace
            await self._record_outage(moment.target, kind, began)

    async def _record_outage(
        self, process: str, kind: Kind, began: float, *, by_itself: bool = False, is_new: bool = False
    ) -> None:
        """Wait until the process is ready again, and record the time of its fault."""
        put_right = self._clock.monotonic()
        with suppress(CannotRun):  # without etcd an API server cannot become ready
            await self._plane.wait_ready(process)
            if is_new:
                await self._plane.wait_up_to_date(process)
        ended = self._clock.monotonic()
        self._outages.append(
            ProcessOutage(
                process=process, kind=kind, began=began, put_right=put_right, ended=ended, by_itself=by_itself
            )
        )

    def _disturbance(self, moment: FaultOccurrence) -> AbstractAsyncContextManager[None]:
        """Return the context manager of a fault."""
        process, fault = self._plane.processes[moment.target], moment.fault
        if isinstance(fault, Kill):
            return kill_process(process)
        if isinstance(fault, Pause):
            return suspend_process(process)
        if isinstance(fault, Partition) and self._network is not None:
            return partition_process(self._network, process)
        if isinstance(fault, ClockJump) and self._clocks is not None:
            return set_clock(self._clocks, process, fault.by)
        if isinstance(fault, DiskFull):
            return fill_disk(process)
        if isinstance(fault, LoseData):
            return lose_data(
                process, self._plane.folder / process.name, partial(self._plane.replace_member, process.name)
            )
        if isinstance(fault, CorruptStore):
            return damage_store(process, self._plane.store_file, random.Random(f"{self._plan.seed}/{moment.at}"))
        raise CannotRun(f"fault {type(fault).__name__} is not supported for {moment.target}")

    async def _settle(
        self, watchers: Iterable[LoadWatcher], elections: ElectionWatcher, transport: HttpTransport
    ) -> dict[str, str]:
        """Wait until the control plane has recovered and every watcher has seen the end; returns the objects' marks."""
        try:
            async with asyncio.timeout(_SETTLES_WITHIN):
                for name in self._plane.members["apiserver"]:
                    await self._ready_again(name)
                present = await finish_load(transport)
                await asyncio.gather(*(watcher.has_seen_the_end.wait() for watcher in watchers))
        except TimeoutError:
            raise CannotRun("the plane does not recover after the last disturbance") from None
        with suppress(TimeoutError):  # then a lease is too old
            async with asyncio.timeout(self._pace.start + self._pace.takeover):
                await elections.wait_renewed(self._leases().values(), self._clock.monotonic())
        return present

    async def _ready_again(self, server: str) -> None:
        """Wait for a server that ended without etcd and may be restarted more than once."""
        while True:
            try:
                return await self._plane.wait_ready(server)
            except CannotRun:
                await asyncio.sleep(_LOOK_EVERY)

    # -- supervision -----------------------------------------------------------------------------------------

    async def _start_again(self) -> None:
        """Restart processes that exited by themselves, such as a leader without its lease."""
        async with asyncio.TaskGroup() as starting:
            while True:
                before = self._clock.monotonic()
                await asyncio.sleep(_LOOK_EVERY)
                now = self._clock.monotonic()
                self._longest_stall = max(self._longest_stall, now - before - _LOOK_EVERY)
                for name, process in self._plane.processes.items():
                    if not process.is_running and not self._turns[name].locked():
                        self._tell(f"{name} exited and is restarted")
                        self._ends.append((name, now))
                        await process.start()
                        starting.create_task(self._record_outage(name, "dead", before, by_itself=True))

    def _check(self, problems: list[str], elections: ElectionWatcher, run: Span) -> Report:
        pace = self._pace.with_cpu_wait(self._longest_stall)
        circumstances = FaultTimeline(self._plane.members, self._outages, pace, self._began)
        available = check_availability(self._notes.attempts, circumstances)
        led = [
            check_leadership(elections.renewals[lease], component, circumstances, run)
            for component, lease in self._leases().items()
        ]
        self._keep("operations", self._notes.operations)
        self._keep("attempts", self._notes.attempts)
        self._keep("outages", self._outages)
        self._keep("renewals", [renewal for renewals in elections.renewals.values() for renewal in renewals])
        return Report(
            seed=self._plan.seed,
            operations=dict(Counter(operation.outcome for operation in self._notes.operations)),
            events=sum(map(len, self._notes.watches.values())),
            disturbances=self._told,
            promised=available.promised,
            broken_connections=available.broken,
            longest_outage=available.longest,
            takeovers=sum(one.takeovers for one in led),
            longest_without_leader=max((one.longest for one in led), default=0.0),
            problems=[
                *problems,
                *available.problems,
                *check_recoveries(circumstances),
                *check_exits(self._ends, circumstances),
                *(problem for one in led for problem in one.problems),
            ],
        )

    def _leases(self) -> dict[str, str]:
        """Return the leases of the components that run."""
        return {component: lease for component, lease in LEASES.items() if self._plane.members[component]}

    def _keep(self, name: str, what: Iterable[msgspec.Struct]) -> None:
        """Write records to a file, for diagnosis."""
        (self._plane.folder / f"{name}.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, what)))


def _for_calls(plan: ChaosPlan, folder: Path) -> Path | None:
    """Write the plan of call faults for the API servers; None if there are none."""
    ours = plan.for_calls()
    if not ours.faults:
        return None
    path = folder / "calls.yaml"
    path.write_bytes(msgspec.json.encode(ours.document()))
    return path


def _wrong_by(plan: ChaosPlan) -> list[float]:
    return [fault.by for fault in plan.faults if isinstance(fault, ClockJump)]


def _loses_answers(plan: ChaosPlan, action: Action) -> bool:
    """Return True if the plan may lose the answer to an action of our clients."""
    return any(isinstance(fault, LostAnswers) and _hits(fault, action) for fault in plan.on_calls())


def _hits(fault: OnCalls, action: Action) -> bool:
    return CallMatcher(fault.verbs, fault.resources).matches(action, "configmaps")


def _pace_under(plan: ChaosPlan, pace: TimeConstants) -> TimeConstants:
    """Return the time constants adapted to the plan's delays and injected errors."""
    slowed = sum(fault.by for fault in plan.on_calls() if isinstance(fault, Slow))
    return replace(pace, slowed_by=slowed, lost_tries=_LOST_TRIES if any(plan.on_calls()) else 0)
