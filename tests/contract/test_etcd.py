# SPDX-License-Identifier: Apache-2.0
"""Tests of a shared store: several servers, and failures of etcd members."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kubeloop.clock import SystemClock
from kubeloop.protobuf_wire import read_fields
from kubeloop.store import CompactedError, DependentConflict, Record, StoreConflict, StoreError, StoreEvent
from kubeloop.store.etcd import client as connection_module
from kubeloop.store.etcd.client import RANGE, EtcdClient, Unavailable
from kubeloop.store.etcd.config import EtcdConfig
from kubeloop.store.etcd.messages import range_request, read_range
from kubeloop.store.etcd.pending_writes import PROVISIONAL
from kubeloop.store.etcd.store import EtcdStore
from tests.bounds import GIVE_UP_SECONDS
from tests.contract.stores import EtcdSupply, started
from tests.etcd_processes import EtcdCluster, EtcdMember

Pair = Callable[[EtcdStore, EtcdStore], Awaitable[None]]


@pytest.fixture(scope="module")
def cluster(etcd_servers: EtcdSupply) -> object:
    with etcd_servers.fresh() as cluster:
        yield cluster


@pytest.fixture
def two(cluster: EtcdCluster, request: pytest.FixtureRequest) -> Callable[[Pair], None]:
    """A scenario of two servers that share what lies under the test's own prefix."""

    def play(scenario: Pair) -> None:
        async def main() -> None:
            async with (
                asyncio.timeout(GIVE_UP_SECONDS),
                started(cluster, prefix) as one,
                started(cluster, prefix) as other,
            ):
                await scenario(one, other)

        asyncio.run(main())

    prefix = f"/{request.node.name}/"
    return play


def test_acknowledged_write_is_visible_to_another_current_server(two: Callable[[Pair], None]) -> None:
    async def scenario(one: EtcdStore, other: EtcdStore) -> None:
        for number in range(20):
            written = await one.write("/a", str(number).encode())
            await other.wait_current()
            assert other.get("/a") == written.record
            assert other.revision >= written.revision

    two(scenario)


def test_concurrent_writes_of_two_servers_conflict(two: Callable[[Pair], None]) -> None:
    async def scenario(one: EtcdStore, other: EtcdStore) -> None:
        first = (await one.write("/a", b"0")).revision
        await other.wait_current()
        writes = [one.write("/a", b"one", first), other.write("/a", b"other", first)]
        results = await asyncio.gather(*writes, return_exceptions=True)
        (refused,) = (result for result in results if isinstance(result, StoreConflict))
        (done,) = (result for result in results if isinstance(result, StoreEvent))
        assert refused.current == done.record
        loser = one if isinstance(results[0], StoreConflict) else other
        assert loser.peek("/a") == loser.get("/a") == done.record
        assert not loser.last_error

    two(scenario)


def test_increments_from_two_servers_lose_nothing(two: Callable[[Pair], None]) -> None:
    async def scenario(one: EtcdStore, other: EtcdStore) -> None:
        await one.write("/n", b"0")
        await other.wait_current()

        async def increment(store: EtcdStore) -> None:
            while True:
                record = store.peek("/n")
                assert record is not None
                try:
                    await store.write("/n", str(int(record.value) + 1).encode(), record.mod_revision)
                except StoreConflict:
                    continue
                return

        await asyncio.gather(*(increment(store) for store in (one, other) for _ in range(20)))
        await one.wait_current()
        record = one.get("/n")
        assert record is not None
        assert record.value == b"40"

    two(scenario)


def test_writes_based_on_a_lost_write_are_lost(two: Callable[[Pair], None]) -> None:
    async def scenario(one: EtcdStore, other: EtcdStore) -> None:
        first = (await one.write("/a", b"0")).revision
        await other.wait_current()
        faster = await one.write("/a", b"one", first)

        await other.wait_revision(faster.revision)
        known = other.get("/a")
        assert known is not None
        assert known == faster.record
        # Simulate that the other server has not observed it yet.
        stale = Record("/a", b"0", first, first)
        other._committed.apply(StoreEvent(first, "/a", stale, known))
        charge = other.write("/a", b"charged", first)
        peeked = other.peek("/a")
        assert peeked is not None
        assert peeked.mod_revision >= PROVISIONAL
        again = other.write("/a", b"charged again", peeked.mod_revision)
        made = other.write("/made", b"")
        results = await asyncio.gather(charge, again, made, return_exceptions=True)
        assert [type(result) for result in results] == [StoreConflict, StoreConflict, DependentConflict]
        await one.wait_current()
        assert one.get("/made") is None

    two(scenario)


def test_provisional_revision_is_translated_after_the_write(two: Callable[[Pair], None]) -> None:
    async def scenario(one: EtcdStore, other: EtcdStore) -> None:
        write = one.write("/a", b"1")
        peeked = one.peek("/a")
        assert peeked is not None
        written = await write
        assert await one.wait_durable(peeked) == written.revision
        changed = await one.write("/a", b"2", peeked.mod_revision)
        assert changed.previous == written.record

    two(scenario)


def test_published_revision_can_be_used_before_the_writer_returns(two: Callable[[Pair], None]) -> None:
    async def scenario(one: EtcdStore, other: EtcdStore) -> None:
        carry_out, answered = one._transactions.write, asyncio.Event()

        async def answered_late(*args: Any) -> Any:
            outcome = await carry_out(*args)
            await answered.wait()
            return outcome

        one._transactions.write = answered_late  # type: ignore[method-assign]
        told = asyncio.Event()
        subscription = one.subscribe("/", one.revision, lambda _: told.set())
        first = one.write("/a", b"1")
        await told.wait()
        subscription.cancel()
        seen = one.get("/a")
        assert seen is not None
        assert one.peek("/a") == seen, "whoever read it has its revision from there"
        second = one.write("/a", b"2", seen.mod_revision)
        answered.set()
        assert (await second).previous == (await first).record == seen

    two(scenario)


def test_servers_agree_on_the_compacting_server(two: Callable[[Pair], None]) -> None:
    async def scenario(one: EtcdStore, other: EtcdStore) -> None:
        for number in range(3):
            await one.write("/a", str(number).encode())
        await other.wait_current()
        revision = other.revision
        turns = [await store._compactions.compact(revision - 1) for store in (one, other, one, other)]
        assert turns.count(True) in (1, 2)
        assert not any(before and after for before, after in itertools.pairwise(turns))

    two(scenario)


def test_replica_behind_compaction_receives_the_difference(two: Callable[[Pair], None]) -> None:
    async def scenario(one: EtcdStore, other: EtcdStore) -> None:
        for key in ("/kept", "/changed", "/gone"):
            await one.write(key, b"old")
        await other.wait_current()
        before = other.revision
        seen: list[StoreEvent] = []
        other.subscribe("", before, seen.extend)
        assert other._following is not None
        other._following.cancel()
        await asyncio.wait((other._following,))
        await one.write("/changed", b"new")
        await one.write("/gone", None)
        await one.write("/made", b"new")
        while not await one._compactions.compact(one.revision):
            pass
        other._following = asyncio.ensure_future(other._follow())
        await other.wait_current()
        assert {event.key: event.record and event.record.value for event in seen} == {
            "/changed": b"new",
            "/gone": None,
            "/made": b"new",
        }
        assert [event.revision for event in seen] == sorted(event.revision for event in seen)
        assert other.range("").records == one.range("").records
        with pytest.raises(CompactedError):
            other.subscribe("", before, seen.extend)

    two(scenario)


def test_expiring_keys_have_a_lease(cluster: EtcdCluster) -> None:
    async def main() -> None:
        async with asyncio.timeout(GIVE_UP_SECONDS), started(cluster, "/leases/") as store:
            assert store.set_ttl("/events/", 0.4)
            gone = asyncio.Event()
            await store.write("/events/a", b"")
            await store.write("/stays", b"")
            store.subscribe("/events/", store.revision, lambda events: gone.set() if events[-1].is_deleted else None)
            await gone.wait()
            assert [record.key for record in store.range("").records] == ["/stays"]

    asyncio.run(main())


def test_lost_quorum_fails_calls_until_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "GIVE_UP_SECONDS", 1.0)

    async def main() -> None:
        with EtcdCluster(tmp_path) as cluster:
            monkeypatch.setattr(connection_module, "ATTEMPT_SECONDS", 3.0)
            async with asyncio.timeout(GIVE_UP_SECONDS), started_patiently(cluster) as store:
                await store.write("/a", b"1")
                cluster.members[0].kill()
                for attempt in (store.wait_current(), store.write("/a", b"2")):
                    with pytest.raises(StoreError, match="does not respond"):
                        await attempt
                assert "does not respond" in store.last_error
                cluster.members[0].start(cluster.members)
                await eventually(store.wait_current)
                assert not store.last_error
                event = await store.write("/a", b"3")
                assert store.get("/a") == event.record

    asyncio.run(main())


@asynccontextmanager
async def started_patiently(cluster: EtcdCluster) -> AsyncIterator[EtcdStore]:
    """Wait for members that were just started."""
    store = EtcdStore(cluster.config())
    await eventually(store.start)
    try:
        yield store
    finally:
        await store.close()


async def eventually(attempt: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            return await attempt()
        except Unavailable:
            continue


def test_killing_the_leader_loses_nothing_acknowledged_and_no_event(tmp_path: Path) -> None:
    """Two servers with writers; the leader is killed twice and restarted."""

    async def main() -> None:
        with EtcdCluster(tmp_path, size=3) as cluster:
            async with (
                asyncio.timeout(GIVE_UP_SECONDS),
                started_patiently(cluster) as one,
                started_patiently(cluster) as other,
            ):
                histories: list[list[StoreEvent]] = [[], []]
                for store, history in zip((one, other), histories, strict=True):
                    store.subscribe("", 1, history.extend)
                over = asyncio.Event()
                writers = [
                    asyncio.ensure_future(write_on((one, other)[number % 2], f"/w{number}", over))
                    for number in range(8)
                ]
                for _ in range(2):
                    await depose(cluster, one)
                over.set()
                acknowledged = [event for written in await asyncio.gather(*writers) for event in written]
                await asyncio.gather(one.wait_current(), other.wait_current())
                check(acknowledged, histories)

    asyncio.run(main())


async def write_on(store: EtcdStore, key: str, over: asyncio.Event) -> list[StoreEvent]:
    """Return all acknowledged writes."""
    done: list[StoreEvent] = []
    number = 0
    while not over.is_set():
        number += 1
        try:
            done.append(await store.write(f"{key}/{number % 7}", str(number).encode()))
        except StoreError:
            await asyncio.sleep(0.01)
    return done


async def depose(cluster: EtcdCluster, store: EtcdStore) -> None:
    leader = await leader_of(cluster)
    leader.kill()
    await events_of(store, 100)  # another leader is elected, and writes continue
    leader.start(cluster.members)
    await events_of(store, 100)


async def events_of(store: EtcdStore, count: int) -> None:
    async for batch in store.watch("", store.revision):
        count -= len(batch)
        if count <= 0:
            return


async def leader_of(cluster: EtcdCluster) -> EtcdMember:
    """Return the leader by the members' status: field 4 (leader) and field 2 of the header (member)."""
    for member in cluster.members:
        connection = EtcdClient(EtcdConfig((member.endpoint,)), SystemClock())
        connection.open()
        answer = dict(read_fields(await connection.call("/etcdserverpb.Maintenance/Status", b"")))
        await connection.close()
        header = dict(read_fields(bytes(answer[1])))
        if header[2] == answer.get(4):
            return member
    raise AssertionError("nobody leads")


def check(acknowledged: Sequence[StoreEvent], histories: Sequence[Sequence[StoreEvent]]) -> None:
    revisions = [[event.revision for event in history] for history in histories]
    assert revisions[0] == revisions[1] == list(range(2, revisions[0][-1] + 1))  # none missing, none twice
    by_revision = {event.revision: event for event in histories[0]}
    assert len(acknowledged) > 200
    for event in acknowledged:
        assert by_revision[event.revision].record == event.record
        assert by_revision[event.revision].key == event.key


def test_etcd_prefix_is_transparent(cluster: EtcdCluster) -> None:
    async def main() -> None:
        store = EtcdStore(cluster.config("/elsewhere/", "/registry/"))
        await store.start()
        await store.write("/registry/pods/default/a", b"1")
        request = range_request(b"/elsewhere/pods/default/a")
        found = read_range(await store._connection.call(RANGE, request)).found
        assert [one.value for one in found] == [b"1"]
        assert [record.key for record in store.range("/registry/pods/").records] == ["/registry/pods/default/a"]
        await store.close()

    asyncio.run(main())
