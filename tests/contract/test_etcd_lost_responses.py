# SPDX-License-Identifier: Apache-2.0
"""Tests of writes with lost responses: each is resolved, executed once, and attributed correctly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from kubeloop.chaos.plane import free_ports
from kubeloop.clock import SystemClock
from kubeloop.store import StoreConflict, StoreError, StoreEvent
from kubeloop.store.etcd.client import RANGE, EtcdClient
from kubeloop.store.etcd.config import EtcdConfig
from kubeloop.store.etcd.load import KeyTranslator
from kubeloop.store.etcd.messages import range_request, read_range
from kubeloop.store.etcd.store import EtcdStore
from tests.bounds import GIVE_UP_SECONDS
from tests.contract.faulty_network import FaultyNetwork, line_to
from tests.contract.stores import EtcdSupply, started
from tests.etcd_processes import EtcdCluster


class RemoteStore:
    """A server behind a line that fails, and what it writes."""

    def __init__(self, store: EtcdStore, line: FaultyNetwork) -> None:
        self.store = store
        self.line = line

    async def lose_answer(self, key: str, value: bytes | None, expected: int | None, near: EtcdStore) -> _Write:
        """A write that etcd carries out, and does not get to say so."""
        self.line.mute()
        revision = near.revision
        write = self.store.write(key, value, expected)
        await _changed(near, key, revision)
        return write

    async def lose_question(self, key: str, value: bytes | None, expected: int | None) -> _Write:
        """A write that is sent and never arrives."""
        self.line.die()
        write = self.store.write(key, value, expected)
        for _ in range(10):
            await asyncio.sleep(0)
        return write


_Write = asyncio.Future[StoreEvent]
Scenario = Callable[[RemoteStore, EtcdStore], Awaitable[None]]


@pytest.fixture(scope="module")
def cluster(etcd_servers: EtcdSupply) -> object:
    with etcd_servers.fresh() as cluster:
        yield cluster


@pytest.fixture
def play(cluster: EtcdCluster, request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    """A scenario of a server behind a line, and one that is close to etcd."""
    prefix = f"/{request.node.name}/"

    def run(scenario: Scenario) -> None:
        async def main() -> None:
            async with (
                asyncio.timeout(GIVE_UP_SECONDS),
                started(cluster, prefix) as near,
                behind_line(cluster, prefix) as far,
            ):
                await scenario(far, near)

        asyncio.run(main())

    return run


@asynccontextmanager
async def behind_line(cluster: EtcdCluster, prefix: str) -> AsyncIterator[RemoteStore]:
    async with line_to(cluster.members[0].client_port) as line:
        store = EtcdStore(EtcdConfig((f"127.0.0.1:{line.port}",), prefix, "/"))
        await store.start()
        try:
            yield RemoteStore(store, line)
        finally:
            await store.close()


async def _changed(near: EtcdStore, key: str, after: int) -> None:
    changed = asyncio.Event()
    subscription = near.subscribe(key, after, lambda _: changed.set())
    await changed.wait()
    subscription.cancel()


async def _made(far: RemoteStore, near: EtcdStore) -> int:
    await _deletes(far.store)
    revision = (await far.store.write("/a", b"0", 0)).revision
    await near.wait_current()
    return revision


async def _deletes(store: EtcdStore) -> None:
    """Delete once before, so that the lease of the delete markers exists."""
    await store.write(f"/{id(store)}", b"")
    await store.write(f"/{id(store)}", None)


@pytest.mark.parametrize("is_conditional", [True, False])
@pytest.mark.parametrize("value", [b"1", None])
def test_executed_write_is_recognized_after_a_lost_response(
    value: bytes | None, is_conditional: bool, play: Callable[[Scenario], None]
) -> None:
    async def scenario(far: RemoteStore, near: EtcdStore) -> None:
        base = await _made(far, near)
        write = await far.lose_answer("/a", value, base if is_conditional else None, near)
        far.line.drop()
        event = await write
        assert (event.record.value if event.record else None) == value
        assert far.store.get("/a") == event.record
        assert event.revision == near.revision

    play(scenario)


@pytest.mark.parametrize("is_conditional", [True, False])
@pytest.mark.parametrize("value", [b"ours", None])
def test_executed_write_is_not_repeated_over_a_later_write(
    value: bytes | None, is_conditional: bool, play: Callable[[Scenario], None]
) -> None:
    async def scenario(far: RemoteStore, near: EtcdStore) -> None:
        base = await _made(far, near)
        write = await far.lose_answer("/a", value, base if is_conditional else None, near)
        since = await near.write("/a", b"since")
        far.line.drop()
        event = await write
        assert (event.record.value if event.record else None) == value
        assert event.revision < since.revision
        for store in (far.store, near):
            await store.wait_current()
            assert store.get("/a") == since.record

    play(scenario)


def test_lost_delete_conflicts_with_a_concurrent_delete(
    play: Callable[[Scenario], None],
) -> None:
    async def scenario(far: RemoteStore, near: EtcdStore) -> None:
        base = await _made(far, near)
        write = await far.lose_question("/a", None, base)
        await near.write("/a", None, base)
        far.line.drop()
        with pytest.raises(StoreConflict) as refused:
            await write
        assert refused.value.current is None

    play(scenario)


def test_lost_delete_conflicts_with_a_concurrent_write(play: Callable[[Scenario], None]) -> None:
    async def scenario(far: RemoteStore, near: EtcdStore) -> None:
        base = await _made(far, near)
        write = await far.lose_question("/a", None, base)
        faster = await near.write("/a", b"faster", base)
        far.line.drop()
        with pytest.raises(StoreConflict) as refused:
            await write
        assert refused.value.current == faster.record

    play(scenario)


def test_lost_unconditional_delete_deletes_the_current_object(
    play: Callable[[Scenario], None],
) -> None:
    async def scenario(far: RemoteStore, near: EtcdStore) -> None:
        base = await _made(far, near)
        write = await far.lose_question("/a", None, None)
        faster = await near.write("/a", b"faster", base)
        far.line.drop()
        event = await write
        assert (event.record, event.previous) == (None, faster.record)
        await near.wait_current()
        assert near.get("/a") is None

    play(scenario)


def test_concurrent_deletes_with_lost_responses_succeed_once(
    cluster: EtcdCluster,
) -> None:
    async def main() -> None:
        keys = [f"/{number}" for number in range(24)]
        prefix = "/both/"
        async with (
            asyncio.timeout(GIVE_UP_SECONDS),
            started(cluster, prefix) as near,
            behind_line(cluster, prefix) as one,
            behind_line(cluster, prefix) as other,
        ):
            for key in keys:
                await near.write(key, b"", 0)
            for far in (one, other):
                await _deletes(far.store)
                await far.store.wait_current()
                far.line.mute()
            writes = [asyncio.ensure_future(_delete(far.store, key)) for key in keys for far in (one, other)]
            for key in keys:
                if near.get(key) is not None:
                    await _changed(near, key, near.revision)
            for far in (one, other):
                far.line.drop()
            results = await asyncio.gather(*writes, return_exceptions=True)
        for of_one, of_other in zip(results[::2], results[1::2], strict=True):
            assert {type(of_one), type(of_other)} == {StoreEvent, StoreConflict}

    asyncio.run(main())


async def _delete(store: EtcdStore, key: str) -> StoreEvent:
    """Write in a separate task: the writes of one task are sequential."""
    return await store.write(key, None)


def test_delete_markers_are_small_and_expire(cluster: EtcdCluster) -> None:
    async def main() -> None:
        prefix = "/marks/"
        async with asyncio.timeout(GIVE_UP_SECONDS), started(cluster, prefix) as near:
            for number in range(12):
                await near.write(f"/{number}", b"")
            await near.write("/0", None)
            deletes = [asyncio.ensure_future(_delete(near, f"/{number}")) for number in range(1, 4)]
            await asyncio.gather(*deletes)
            for number in range(4, 12):
                await near.write(f"/{number}", None)
            marks = await marks_under(cluster, prefix)
        assert len(marks) <= 1 + 3, "as many as there were deletes at once"

    asyncio.run(main())


async def marks_under(cluster: EtcdCluster, prefix: str) -> list[bytes]:
    config = cluster.config(prefix)
    first = KeyTranslator(config).markers_prefix
    connection = EtcdClient(config, SystemClock())
    connection.open()
    try:
        found = await connection.call(RANGE, range_request(first, first[:-1] + bytes([first[-1] + 1])))
    finally:
        await connection.close()
    return [one.key for one in read_range(found).found]


def test_only_sent_requests_may_have_an_effect(cluster: EtcdCluster) -> None:
    async def main() -> None:
        async with asyncio.timeout(GIVE_UP_SECONDS), line_to(cluster.members[0].client_port) as line:
            nobody, member = f"127.0.0.1:{free_ports(1)[0]}", f"127.0.0.1:{line.port}"
            connection = EtcdClient(EtcdConfig((nobody, member), "/", "/"), SystemClock())
            connection.open()
            question = range_request(b"\0", count_only=True)
            try:
                assert not (await connection.call_with_history(RANGE, question))[1], "nobody was there to send it to"
                line.mute()
                asked = asyncio.ensure_future(connection.call_with_history(RANGE, question))
                for _ in range(10):
                    await asyncio.sleep(0)
                line.drop()
                assert (await asked)[1], "it was sent"
            finally:
                await connection.close()

    asyncio.run(main())


def test_delete_without_response_reports_an_unknown_outcome(
    play: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubeloop.store.etcd.client.GIVE_UP_SECONDS", 0.1)

    async def scenario(far: RemoteStore, near: EtcdStore) -> None:
        base = await _made(far, near)
        write = await far.lose_answer("/a", None, base, near)
        far.line.accepts = False
        far.line.drop()
        with pytest.raises(StoreError, match="does not respond") as told:
            await write
        assert not isinstance(told.value, StoreConflict)
        far.line.accepts = True

    play(scenario)
