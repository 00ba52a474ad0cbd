"""Carrying out a plan on a plane of its own, under load, and judging what came of it.

plan ─ moments ─▶ disturb one process, put it right again ─┐
clients ─ operations ──────────────────────────────────────┼─▶ report: what was promised, and was it kept
watchers ─ events ─────────────────────────────────────────┘
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import msgspec

from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.chaos.clocks import Clocks
from kubeloop.chaos.disturbances import (
    BrokenPromise,
    clock_set,
    cut_off,
    data_lost,
    disk_full,
    held,
    killed,
    store_damaged,
)
from kubeloop.chaos.history import Operation
from kubeloop.chaos.linearizability import violations
from kubeloop.chaos.load import Notes, Watcher, Worker, conclude
from kubeloop.chaos.membership import CannotReplace
from kubeloop.chaos.network import Network
from kubeloop.chaos.plan import (
    ClockJump,
    CorruptStore,
    DiskFull,
    Kill,
    LoseData,
    Moment,
    Partition,
    Pause,
    Plan,
)
from kubeloop.chaos.plane import CannotRun, RunningPlane, Surroundings
from kubeloop.chaos.watched import watch_problems
from kubeloop.client import Client
from kubeloop.client.config import load_config
from kubeloop.client.http_transport import HttpTransport
from kubeloop.clock import Clock

_LEADERS = ("kube-controller-manager", "kube-scheduler")
_SETTLES_WITHIN = 60.0
_LOOK_EVERY = 0.25
Tell = Callable[[str], None]


class Report(msgspec.Struct, kw_only=True):
    """What happened, and what is wrong with it."""

    seed: int
    operations: dict[str, int]  # by what they were answered
    events: int  # that watchers were told
    disturbances: list[str]
    longest_outage: float  # of one client, while a quorum was there
    longest_without_leader: float  # since a leader had last renewed, while a quorum was there
    problems: list[str]

    def lines(self) -> Iterator[str]:
        answered = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.operations.items()))
        yield f"seed {self.seed}: {len(self.disturbances)} disturbances, {sum(self.operations.values())} operations"
        yield f"  answered: {answered}; {self.events} events told to watchers"
        yield f"  with a quorum, no client waited longer than {self.longest_outage:.1f} s,"
        yield f"  and no lease was older than {self.longest_without_leader:.1f} s"
        yield from (f"  WRONG: {problem}" for problem in self.problems)
        yield "  every promise was kept" if not self.problems else f"  {len(self.problems)} promises were broken"


class Run:
    """One plan, once."""

    def __init__(self, plan: Plan, folder: Path, clock: Clock, tell: Tell, network: Network | None = None) -> None:
        self._plan = plan
        self._clock = clock
        self._tell = tell
        self._moments = [moment for moment in plan.moments() if moment.target]  # all else is for API servers to do
        self._network = network
        folder.mkdir(parents=True, exist_ok=True)
        self._clocks = Clocks(folder) if any(isinstance(fault, ClockJump) for fault in plan.faults) else None
        self._plane = RunningPlane(folder, plan.plane, 0, Surroundings(network, self._clocks, _for_calls(plan, folder)))
        self._broken: list[str] = []
        self._notes = Notes(clock)
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._told: list[str] = []
        self._away: list[tuple[str, float, float]] = []  # which process was not itself, from when to when
        self._ages: list[tuple[float, float]] = []  # when a lease was looked at, and how old its last renewal was
        for moment in self._moments:
            self._disturbance(moment)

    async def run(self) -> Report:
        """All of it; raises CannotRun when the plane does not come up."""
        try:
            await self._plane.start()
            async with AsyncExitStack() as stack:
                return await self._under_load(stack)
        finally:
            await self._plane.kill()

    async def _under_load(self, stack: AsyncExitStack) -> Report:
        load, seed = self._plan.load, self._plan.seed
        watchers = [Watcher(f"w{number}", self._transport(stack), self._notes) for number in range(load.watchers)]
        for watcher in watchers:
            await watcher.begin()
        workers = [
            Worker(f"c{number}", self._transport(stack), self._notes, random.Random(f"{seed}/c{number}"), load.keys)
            for number in range(load.clients)
        ]
        stop = asyncio.Event()
        watching = [asyncio.create_task(watcher.watch()) for watcher in watchers]
        beside = [
            asyncio.create_task(self._look_at_leaders(Client(self._transport(stack)))),
            asyncio.create_task(self._start_again()),
        ]
        working = [asyncio.create_task(worker.work(stop)) for worker in workers]
        try:
            await self._disturb()
            stop.set()
            await asyncio.gather(*working)
            present = await self._settle(watchers, self._transport(stack))
        finally:
            for task in (*watching, *beside, *working):
                task.cancel()
            await asyncio.gather(*watching, *beside, *working, return_exceptions=True)
        return self._judge(present, watchers)

    def _transport(self, stack: AsyncExitStack) -> HttpTransport:
        transport = HttpTransport(load_config(str(self._plane.kubeconfig)), self._clock)
        stack.push_async_callback(transport.close)
        return transport

    # -- what goes wrong ----------------------------------------------------------------------------------------------

    async def _disturb(self) -> None:
        began = self._clock.monotonic()
        async with asyncio.TaskGroup() as group:
            for moment in self._moments:
                await asyncio.sleep(max(0.0, began + moment.at - self._clock.monotonic()))
                group.create_task(self._suffer(moment))
            await asyncio.sleep(max(0.0, began + self._plan.duration - self._clock.monotonic()))

    async def _suffer(self, moment: Moment) -> None:
        """One thing goes wrong and is put right; a process suffers one thing at a time."""
        async with self._turns[moment.target]:
            began = self._clock.monotonic()
            self._told.append(f"{moment.at:.1f} s: {type(moment.fault).__name__.lower()} {moment.target}")
            self._tell(self._told[-1])
            try:
                async with self._disturbance(moment):
                    await asyncio.sleep(moment.until - moment.at)
            except (BrokenPromise, CannotReplace) as broken:
                self._broken.append(str(broken))
            if moment.target in self._plane.members["apiserver"]:
                with suppress(CannotRun):  # while etcd is gone it has nothing to be ready with
                    await self._plane.ready(moment.target)
            self._away.append((moment.target, began, self._clock.monotonic()))

    def _disturbance(self, moment: Moment) -> AbstractAsyncContextManager[None]:
        """What is done to a process, and undone at the end."""
        process, fault = self._plane.processes[moment.target], moment.fault
        if isinstance(fault, Kill):
            return killed(process)
        if isinstance(fault, Pause):
            return held(process)
        if isinstance(fault, Partition) and self._network is not None:
            return cut_off(self._network, process)
        if isinstance(fault, ClockJump) and self._clocks is not None:
            return clock_set(self._clocks, process, fault.by)
        if isinstance(fault, DiskFull):
            return disk_full(process)
        if isinstance(fault, LoseData):
            return data_lost(
                process, self._plane.folder / process.name, partial(self._plane.replace_member, process.name)
            )
        if isinstance(fault, CorruptStore):
            return store_damaged(process, self._plane.store_file, random.Random(f"{self._plan.seed}/{moment.at}"))
        raise CannotRun(f"nothing here can do {type(fault).__name__} to {moment.target}")

    async def _settle(self, watchers: Iterable[Watcher], transport: HttpTransport) -> dict[str, str]:
        """Everything is in its place again: what is there in the end, once every watcher was told of it."""
        try:
            async with asyncio.timeout(_SETTLES_WITHIN):
                for name in self._plane.members["apiserver"]:
                    await self._ready_again(name)
                present = await conclude(transport)
                await asyncio.gather(*(watcher.has_seen_the_end.wait() for watcher in watchers))
        except TimeoutError:
            raise CannotRun("the plane does not recover after the last disturbance") from None
        return present

    async def _ready_again(self, server: str) -> None:
        """One that ended without etcd is started again, perhaps more than once."""
        while True:
            try:
                return await self._plane.ready(server)
            except CannotRun:
                await asyncio.sleep(_LOOK_EVERY)

    # -- what is watched over -----------------------------------------------------------------------------------------

    async def _start_again(self) -> None:
        """What has ended by itself, such as a leader without its lease, is started again, as any supervisor would."""
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            for name, process in self._plane.processes.items():
                if not process.is_running and not self._turns[name].locked():
                    self._tell(f"{name} has ended by itself, and is started again")
                    await process.start()

    async def _look_at_leaders(self, client: Client) -> None:
        """By our own watch: what a leader writes is the time on its own, which may be wrong."""
        renewals: dict[str, tuple[str | None, float]] = {}
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            with suppress(Exception):  # as long as nobody answers, there is nothing to see
                for name in _LEADERS:
                    lease = await client.get(Lease, name, "kube-system")
                    renewed, now = lease.spec.renew_time if lease.spec is not None else None, self._clock.monotonic()
                    before, since = renewals.get(name, (None, now))
                    self._ages.append((now, now - since))
                    if renewed != before:
                        renewals[name] = (renewed, now)

    def _quorum_gone(self) -> list[tuple[float, float]]:
        """When fewer members of etcd were there than it takes, and a little while after."""
        members = self._plane.members["etcd"]
        spare = (len(members) - 1) // 2
        away = [(began, ended) for name, began, ended in self._away if name in members]
        return [
            (began, ended + _RECOVERY)
            for began, ended in away
            if sum(other_began < ended and began < other_ended for other_began, other_ended in away) > spare
        ]

    def _judge(self, present: dict[str, str], watchers: Iterable[Watcher]) -> Report:
        notes, gone = self._notes, self._quorum_gone()
        lines = map(msgspec.json.encode, notes.operations)
        (self._plane.folder / "operations.jsonl").write_bytes(b"\n".join(lines))

        def with_quorum(began: float, ended: float) -> bool:
            return not any(began < until and since < ended for since, until in gone)

        problems = [*self._broken, *map(str, violations(notes.operations))]
        problems += watch_problems(notes.watches, notes.operations, present)
        problems += ["a watcher had to begin anew" for watcher in watchers if watcher.expired]
        return Report(
            seed=self._plan.seed,
            operations=_outcomes(notes.operations),
            events=sum(map(len, notes.watches.values())),
            disturbances=self._told,
            longest_outage=max((end - begin for begin, end in notes.outages if with_quorum(begin, end)), default=0.0),
            longest_without_leader=max((age for at, age in self._ages if with_quorum(at - age, at)), default=0.0),
            problems=problems,
        )


# How long after a quorum is back its absence may still be felt.
_RECOVERY = 5.0


def _for_calls(plan: Plan, folder: Path) -> Path | None:
    """The file from which API servers learn what they shall do to calls, if anything."""
    ours = plan.for_calls()
    if not ours.faults:
        return None
    path = folder / "calls.yaml"
    path.write_bytes(msgspec.json.encode(ours.document()))
    return path


def _outcomes(operations: Iterable[Operation]) -> dict[str, int]:
    return dict(Counter(operation.outcome for operation in operations))
