# SPDX-License-Identifier: Apache-2.0
"""Three candidates, one lease, and everything that happens to processes and networks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api import errors
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import RESOURCES
from kubeloop.api.requests import Call
from kubeloop.api.scalars.times import parse_time
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.leaderelection.fence import Fence, FencedTransport, LeadershipLost
from kubeloop.runtime.leaderelection.leader_elector import JITTER, LeaderElector, LeaseDurations, new_identity
from kubeloop.runtime.standard_metrics import register_leader_election_metrics
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual


class LeaseServer:
    """Lease written by compare-and-swap."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.revision = 0
        self.writes = 0

    def get(self) -> Lease:
        if self.lease is None:
            raise errors.not_found("coordination.k8s.io", "leases", "manager")
        return self.lease

    def create(self, lease: Lease) -> Lease:
        if self.lease is not None:
            raise errors.already_exists("coordination.k8s.io", "leases", "manager")
        return self._store(lease)

    def update(self, lease: Lease) -> Lease:
        if lease.metadata.resource_version != self.get().metadata.resource_version:
            raise errors.conflict("coordination.k8s.io", "leases", "manager")
        return self._store(lease)

    def _store(self, lease: Lease) -> Lease:
        self.revision += 1
        self.writes += 1
        meta = msgspec.structs.replace(lease.metadata, resource_version=str(self.revision))
        self.lease = msgspec.structs.replace(lease, metadata=meta)
        return self.lease

    @property
    def holder(self) -> str | None:
        return self.get().spec.holder_identity


class CandidateConnection:
    """Connection of a candidate to the server, which can be cut or slow."""

    def __init__(self, server: LeaseServer) -> None:
        self._server = server
        self.there = 0.0  # seconds that a request takes to arrive
        self.back = 0.0  # seconds that an answer takes
        self.cut = False
        self.failing = False

    async def _do(self, action: Callable[[], Lease]) -> Lease:
        # Requests in flight arrive even if their caller is cancelled.
        return await asyncio.shield(asyncio.ensure_future(self._carry(action)))

    async def _carry(self, action: Callable[[], Lease]) -> Lease:
        if self.cut:
            await asyncio.sleep(10_000)
        await asyncio.sleep(self.there)
        if self.failing:
            raise errors.service_unavailable("the server is ill")
        answer: Lease | errors.ApiError
        try:
            answer = action()
        except errors.ApiError as error:
            answer = error
        await asyncio.sleep(self.back)
        if isinstance(answer, errors.ApiError):
            raise answer
        return answer

    async def get(self, what: Any, name: str, namespace: str = "") -> Lease:
        return await self._do(self._server.get)

    async def create(self, obj: Any, namespace: str = "") -> Lease:
        return await self._do(lambda: self._server.create(obj))

    async def update(self, obj: Any, namespace: str = "") -> Lease:
        return await self._do(lambda: self._server.update(obj))


class SkewedClock:
    """Clock with another time of day and rate."""

    def __init__(self, loop: VirtualLoop, offset: float, rate: float, seed: int) -> None:
        self._clock = VirtualClock(loop, seed=seed)
        self._loop = loop
        self._offset = offset
        self._rate = rate

    def now(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self._offset)

    def monotonic(self) -> float:
        return self._loop.time() * self._rate + self._offset

    def random(self) -> random.Random:
        return self._clock.random()


class Candidate:
    """A process that takes part in the election for ever."""

    def __init__(self, server: LeaseServer, name: str, clock: Any, **options: Any) -> None:
        self.line = CandidateConnection(server)
        self.elector = LeaderElector(self.line, "kube-system", "manager", name, clock, **options)
        self.terms = 0

    async def run(self) -> None:
        while True:
            try:
                await self.elector.run(self._lead)
            except LeadershipLost:
                continue

    async def _lead(self) -> None:
        self.terms += 1
        await asyncio.get_running_loop().create_future()


class LeaderElectorHarness:
    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.server = LeaseServer()
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def candidate(self, name: str, *, offset: float = 0, rate: float = 1, seed: int = 0, **options: Any) -> Candidate:
        one = Candidate(self.server, name, SkewedClock(self.loop, offset, rate, seed), **options)
        self.tasks[name] = asyncio.create_task(one.run())
        return one

    async def stop(self, name: str) -> None:
        task = self.tasks[name]
        task.cancel()
        await asyncio.wait((task,))


def play(scenario: Callable[[LeaderElectorHarness], Awaitable[None]]) -> None:
    loop = VirtualLoop()

    async def main() -> None:
        await scenario(LeaderElectorHarness(loop))
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    run_virtual(main(), loop=loop)


# The usual course


def test_first_candidate_creates_the_lease_and_leads() -> None:
    async def scenario(harness: LeaderElectorHarness) -> None:
        one = harness.candidate("one")
        await harness.loop.settle()
        spec = harness.server.get().spec
        assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("one", 15, 0)
        assert spec.acquire_time == spec.renew_time == "2026-01-01T00:00:00.000000Z"
        assert one.elector.is_leader
        assert one.elector.fence.is_open

    play(scenario)


def test_leader_renews_every_retry_period_and_others_wait() -> None:
    async def scenario(harness: LeaderElectorHarness) -> None:
        harness.candidate("one")
        await harness.loop.settle()
        two = harness.candidate("two")
        await harness.loop.advance(60)
        assert harness.server.writes == 31
        assert two.elector.leader == "one"
        assert two.terms == 0
        assert harness.server.get().spec.acquire_time == "2026-01-01T00:00:00.000000Z"
        assert harness.server.get().spec.renew_time == "2026-01-01T00:01:00.000000Z"

    play(scenario)


def test_stopped_leader_releases_the_lease() -> None:
    async def scenario(harness: LeaderElectorHarness) -> None:
        one = harness.candidate("one")
        await harness.loop.settle()
        two = harness.candidate("two")
        await harness.stop("one")
        spec = harness.server.get().spec
        assert (spec.holder_identity, spec.lease_duration_seconds) == ("", 1)
        assert not one.elector.fence.is_open
        await harness.loop.advance(4.5)
        assert two.elector.fence.is_open
        assert harness.server.get().spec.lease_transitions == 1

    play(scenario)


def test_leader_may_keep_the_lease_on_stop() -> None:
    async def scenario(harness: LeaderElectorHarness) -> None:
        harness.candidate("one", release=False)
        await harness.loop.settle()
        await harness.stop("one")
        assert harness.server.holder == "one"

    play(scenario)


def test_dead_leader_is_replaced_after_the_lease_duration() -> None:
    async def scenario(harness: LeaderElectorHarness) -> None:
        one, two = harness.candidate("one"), harness.candidate("two")
        await harness.loop.advance(10)
        leader, other = (one, two) if one.elector.is_leader else (two, one)
        leader.line.cut = True
        await harness.loop.advance(11)
        assert not leader.elector.fence.is_open
        assert not other.elector.fence.is_open
        await harness.loop.advance(10)
        assert other.elector.fence.is_open
        assert harness.server.holder == other.elector.identity

    play(scenario)


@pytest.mark.parametrize("seed", range(20))
def test_standby_retries_exactly_when_the_lease_expires(seed: int) -> None:
    async def scenario(harness: LeaderElectorHarness) -> None:
        leader = harness.candidate("one")
        await harness.loop.settle()
        standby = harness.candidate("two", seed=seed)
        await harness.loop.advance(10 + seed / 10)
        leader.line.cut = True
        renewed = parse_time(harness.server.get().spec.renew_time or "")
        await harness.loop.advance(30)
        assert standby.elector.is_leader
        # It saw the last renewal at most a pause after it was made, and has counted from there.
        waited = (parse_time(harness.server.get().spec.acquire_time or "") - renewed).total_seconds()
        assert 15.0 <= waited <= 15.0 + 2.0 * (1 + JITTER)

    play(scenario)


def test_leader_work_ends_before_another_leader_starts() -> None:
    async def scenario(harness: LeaderElectorHarness) -> None:
        line = CandidateConnection(harness.server)
        elector = LeaderElector(line, "kube-system", "manager", "one", VirtualClock(harness.loop))
        ended: list[float] = []

        async def lead() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append(harness.loop.time())

        task = asyncio.create_task(elector.run(lead))
        await harness.loop.settle()
        line.cut = True
        await harness.loop.advance(30)
        assert ended == [10.0]
        assert isinstance(task.exception(), LeadershipLost)

    play(scenario)


def test_finished_work_ends_the_term() -> None:
    async def scenario(harness: LeaderElectorHarness) -> None:
        elector = LeaderElector(
            CandidateConnection(harness.server), "kube-system", "manager", "one", VirtualClock(harness.loop)
        )

        async def fail() -> None:
            raise RuntimeError("a bug")

        with pytest.raises(RuntimeError, match="a bug"):
            await elector.run(fail)
        assert harness.server.holder == ""

    play(scenario)


def test_stopping_leader_may_write_until_it_ends() -> None:
    async def scenario(harness: LeaderElectorHarness) -> None:
        elector = LeaderElector(
            CandidateConnection(harness.server), "kube-system", "manager", "one", VirtualClock(harness.loop)
        )
        open_while_ending: list[bool] = []

        async def lead() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await asyncio.sleep(25)  # longer than a lease: it must be renewed meanwhile
                open_while_ending.append(elector.fence.is_open)

        task = asyncio.create_task(elector.run(lead))
        await harness.loop.settle()
        task.cancel()
        await harness.loop.advance(30)
        assert open_while_ending == [True]
        assert harness.server.holder == ""

    play(scenario)


# Trouble


def test_short_server_outage_keeps_the_lease() -> None:
    async def scenario(harness: LeaderElectorHarness) -> None:
        one = harness.candidate("one")
        await harness.loop.settle()
        harness.candidate("two")
        one.line.failing = True
        await harness.loop.advance(7)
        one.line.failing = False
        await harness.loop.advance(60)
        assert one.terms == 1
        assert harness.server.holder == "one"

    play(scenario)


def test_unrelated_lease_update_is_not_a_rival() -> None:
    registry = MetricRegistry()

    async def scenario(harness: LeaderElectorHarness) -> None:
        one = harness.candidate("one", instruments=register_leader_election_metrics(registry, "manager"))
        await harness.loop.settle()
        labelled = msgspec.structs.replace(harness.server.get().metadata, labels={"seen": "yes"})
        harness.server.update(msgspec.structs.replace(harness.server.get(), metadata=labelled))
        await harness.loop.advance(30)
        assert one.terms == 1
        assert harness.server.get().metadata.labels == {"seen": "yes"}
        text = registry.render()
        assert 'leader_election_slowpath_total{name="manager"} 1' in text
        assert 'leader_election_master_status{name="manager"} 1' in text

    play(scenario)


def test_leader_stops_when_another_holder_is_observed() -> None:
    async def scenario(harness: LeaderElectorHarness) -> None:
        one = harness.candidate("one")
        await harness.loop.settle()
        spec = msgspec.structs.replace(harness.server.get().spec, holder_identity="a usurper")
        harness.server.update(msgspec.structs.replace(harness.server.get(), spec=spec))
        await harness.loop.advance(2)
        assert not one.elector.fence.is_open
        assert harness.server.holder == "a usurper"

    play(scenario)


def test_deleted_lease_is_kept_by_its_holder_while_observers_wait() -> None:
    async def scenario(harness: LeaderElectorHarness) -> None:
        one = harness.candidate("one")
        await harness.loop.settle()
        two = harness.candidate("two")
        await harness.loop.advance(5)
        one.line.cut = True
        harness.server.lease = None
        await harness.loop.advance(4)
        assert not two.elector.fence.is_open
        await harness.loop.advance(20)
        assert two.elector.fence.is_open

    play(scenario)


def test_late_renewal_response_shortens_the_fence() -> None:
    async def scenario(harness: LeaderElectorHarness) -> None:
        one = harness.candidate("one")
        one.line.back = 4.0  # for the answer that there is no lease, and for the one that it is made
        await harness.loop.advance(8)
        assert one.elector.fence.seconds_left() == 6.0

    play(scenario)


def test_leader_without_renewal_is_unhealthy() -> None:
    async def scenario(harness: LeaderElectorHarness) -> None:
        one = harness.candidate("one")
        await harness.loop.settle()
        assert one.elector.health_error() == ""
        task = harness.tasks["one"]
        one.elector._observed_at -= 36
        assert one.elector.health_error() == "failed election to renew leadership on lease manager"
        assert not task.done()

    play(scenario)


# Telling


def test_elections_record_events() -> None:
    told: list[Any] = []
    leaders: list[str] = []

    class Recorder:
        def event(self, obj: Any, type: str, reason: str, message: str) -> None:
            told.append((obj.metadata.name, type, reason, message))

    async def scenario(harness: LeaderElectorHarness) -> None:
        harness.candidate("one", recorder=Recorder(), on_new_leader=leaders.append)
        await harness.loop.advance(10)
        await harness.stop("one")

    play(scenario)
    assert [entry[3] for entry in told] == ["one became leader", "one stopped leading"]
    assert told[0][:3] == ("manager", "Normal", "LeaderElection")
    assert leaders == ["one"]


@pytest.mark.parametrize(
    ("terms", "complaint"),
    [
        ((10, 10, 2), "leaseDuration must be greater than renewDeadline"),
        ((15, 2.4, 2), "renewDeadline must be greater than retryPeriod"),
        ((0.9, 0.5, 0.1), "at least one second"),
        ((15, 10, 0), "retryPeriod must be greater than zero"),
    ],
)
def test_invalid_terms_are_rejected(terms: tuple[float, float, float], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        LeaseDurations(*terms)


def test_identity_is_hostname_and_uuid() -> None:
    loop = VirtualLoop()
    clock = VirtualClock(loop)
    one, other = new_identity("node-1", clock), new_identity("node-1", clock)
    loop.close()
    assert one.startswith("node-1_")
    assert one != other


# The fence


def write() -> Call:
    leases = next(one for one in RESOURCES if one.plural == "leases")
    return Call(verb="create", resource=leases, body=Lease(metadata=ObjectMeta(name="x")))


class SlowTransport:
    """Takes five seconds for everything."""

    def __init__(self) -> None:
        self.done: list[str] = []

    async def call(self, call: Call) -> str:
        await asyncio.sleep(5)
        self.done.append(call.verb)
        return call.verb

    def watch(self, call: Call) -> Any: ...
    def is_in_process(self, resource: Any) -> Any: ...
    def discovery_version(self) -> Any: ...
    async def document(self, path: str) -> Any: ...
    def stream(self, call: Call) -> Any: ...
    async def close(self) -> None: ...


def test_writes_need_an_open_fence_and_reads_do_not() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        fence, slow = Fence(VirtualClock(loop)), SlowTransport()
        transport = FencedTransport(slow, fence)
        with pytest.raises(LeadershipLost):
            await transport.call(write())
        assert await transport.call(Call(verb="get", resource=write().resource)) == "get"
        fence.open_until(loop.time() + 10)
        assert await transport.call(write()) == "create"

    run_virtual(main(), loop=loop)


def test_write_in_flight_is_cancelled_when_the_fence_closes() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        fence, slow = Fence(VirtualClock(loop)), SlowTransport()
        transport = FencedTransport(slow, fence)
        fence.open_until(loop.time() + 3)
        first = asyncio.create_task(transport.call(write()))
        await loop.advance(2)
        fence.open_until(loop.time() + 10)
        await loop.advance(4)
        assert first.result() == "create"
        second = asyncio.create_task(transport.call(write()))
        await loop.advance(1)
        fence.close()
        await loop.settle()
        assert isinstance(second.exception(), LeadershipLost)
        assert slow.done == ["create"]

    run_virtual(main(), loop=loop)


# Never two

trouble = st.tuples(
    st.sampled_from(["cut", "mend", "slow there", "slow back", "fail", "restart", "nothing"]),
    st.integers(0, 2),
    st.floats(0.1, 9),
    st.floats(0, 20),
)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(trouble, max_size=20),
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0.9, 1.1)), min_size=3, max_size=3),
    st.integers(0, 3),
)
def test_at_most_one_candidate_may_write(troubles: list[Any], clocks: list[tuple[float, float]], seed: int) -> None:
    async def scenario(harness: LeaderElectorHarness) -> None:
        candidates = [
            harness.candidate(f"c{n}", offset=offset, rate=rate, seed=seed + n)
            for n, (offset, rate) in enumerate(clocks)
        ]

        async def pass_time(seconds: float) -> None:
            for _ in range(int(seconds * 4)):
                await harness.loop.advance(0.25)
                able = [one.elector.identity for one in candidates if one.elector.fence.is_open]
                assert len(able) <= 1, able

        await pass_time(6)
        for what, who, strength, pause in troubles:
            one = candidates[who]
            match what:
                case "cut":
                    one.line.cut = True
                case "mend":
                    one.line.cut = one.line.failing = False
                    one.line.there = one.line.back = 0
                case "slow there":
                    one.line.there = strength
                case "slow back":
                    one.line.back = strength
                case "fail":
                    one.line.failing = True
                case "restart":
                    await harness.stop(one.elector.identity)
                    harness.tasks[one.elector.identity] = asyncio.create_task(one.run())
            await pass_time(pause)
        for one in candidates:
            one.line.cut = one.line.failing = False
            one.line.there = one.line.back = 0
        await pass_time(40)
        assert sum(one.elector.fence.is_open for one in candidates) == 1, "nobody leads although all is well"

    play(scenario)
