# SPDX-License-Identifier: Apache-2.0
"""Contract tests of the store backends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kubeloop.store import (
    CompactedError,
    FutureRevision,
    StoreClosed,
    StoreConflict,
    StoreError,
    StoreEvent,
    WatchOverflow,
    open_store,
)
from kubeloop.store.sqlite.log import SqliteStore
from tests.bounds import GIVE_UP_SECONDS
from tests.contract.stores import AnyStore, MakeStore, break_writes

Scenario = Callable[[AnyStore], Coroutine[Any, Any, None]]


@asynccontextmanager
async def started(store: AnyStore) -> AsyncIterator[AnyStore]:
    await store.start()
    try:
        yield store
    finally:
        await store.close()


def run(store: AnyStore, scenario: Scenario) -> None:
    async def main() -> None:
        async with started(store):
            await asyncio.wait_for(scenario(store), GIVE_UP_SECONDS)

    asyncio.run(main())


async def put_all(store: AnyStore, *keys: str) -> None:
    await asyncio.gather(*(store.write(key, key.encode()) for key in keys))


def keys_of(store: AnyStore, prefix: str = "", **options: Any) -> list[str]:
    return [record.key for record in store.range(prefix, **options).records]


def peeked_revision(store: AnyStore, key: str) -> int:
    record = store.peek(key)
    assert record is not None
    return record.mod_revision


def test_empty_store_has_revision_one_and_the_first_write_gets_two(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        assert (store.revision, store.compact_revision) == (1, 1)
        event = await store.write("/a", b"1", 0)
        assert (event.revision, store.revision) == (2, 2)
        assert not event.is_deleted

    run(make_store(), scenario)


def test_a_record_keeps_its_create_revision_until_it_is_deleted(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        await store.write("/a", b"1")
        await store.write("/b", b"1")
        changed = await store.write("/a", b"2")
        assert changed.record == store.get("/a")
        assert changed.record is not None
        assert (changed.record.create_revision, changed.record.mod_revision) == (2, 4)
        deleted = await store.write("/a", None)
        assert deleted.is_deleted
        assert deleted.previous == changed.record
        again = await store.write("/a", b"3")
        assert again.record is not None
        assert again.record.create_revision == 6

    run(make_store(), scenario)


def test_values_round_trip_even_if_empty_or_binary(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        for value in (b"", b"\x00\xff" * 10, b"x" * 1_000_000):
            await store.write("/a", value)
            record = store.get("/a")
            assert record is not None
            assert record.value == value

    run(make_store(), scenario)


def test_write_with_a_wrong_expected_revision_fails_at_the_call(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        await store.write("/a", b"1", 0)
        for expected in (0, 1, 3):
            with pytest.raises(StoreConflict) as caught:
                store.write("/a", b"2", expected)
            assert caught.value.current == store.get("/a")
        with pytest.raises(StoreConflict):
            store.write("/b", b"2", 2)
        with pytest.raises(StoreConflict):
            store.write("/b", None)
        assert store.revision == 2
        assert (await store.write("/a", None, 2)).revision == 3

    run(make_store(), scenario)


def test_compare_and_swap_sees_writes_that_are_not_durable(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        first = store.write("/a", b"1", 0)
        peeked = store.peek("/a")
        assert peeked is not None
        assert peeked.value == b"1"
        assert store.get("/a") is None
        assert keys_of(store) == []
        assert store.revision == 1
        with pytest.raises(StoreConflict):
            store.write("/a", b"lost", 0)
        second = store.write("/a", b"2", peeked.mod_revision)
        peeked_again = store.peek("/a")
        assert peeked_again is not None
        third = store.write("/a", None, peeked_again.mod_revision)
        assert store.peek("/a") is None
        assert [(await write).revision for write in (first, second, third)] == [2, 3, 4]
        assert store.get("/a") is None

    run(make_store(), scenario)


def test_concurrent_increments_lose_nothing(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        await store.write("/n", b"0")

        async def increment() -> None:
            record = store.peek("/n")
            assert record is not None
            await asyncio.sleep(0)
            try:
                await store.write("/n", str(int(record.value) + 1).encode(), record.mod_revision)
            except StoreConflict:
                await increment()

        await asyncio.gather(*(increment() for _ in range(20)))
        record = store.get("/n")
        assert record is not None
        assert record.value == b"20"

    run(make_store(), scenario)


def test_cancelled_writer_does_not_undo_its_write(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        abandoned = store.write("/a", b"1")
        abandoned.cancel()
        await store.write("/b", b"1")
        assert keys_of(store) == ["/a", "/b"]

    run(make_store(), scenario)


def test_range_is_sorted_and_limited_to_its_prefix(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        await put_all(store, "/pods/b/1", "/pods/a/2", "/podsx", "/pods/a/1", "/nodes/1", "/pods/é")
        assert keys_of(store, "/pods/") == ["/pods/a/1", "/pods/a/2", "/pods/b/1", "/pods/é"]
        assert keys_of(store, "/pods/a/") == ["/pods/a/1", "/pods/a/2"]
        assert keys_of(store, "/none/") == []
        assert len(keys_of(store, "")) == 6

    run(make_store(), scenario)


def test_pages_continue_at_a_fixed_revision_while_others_write(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        names = [f"/k/{number:02}" for number in range(10)]
        await put_all(store, *names)
        page = store.range("/k/", limit=4)
        seen = [record.key for record in page.records]
        assert (page.has_more, page.remaining) == (True, 6)
        await asyncio.gather(
            store.write("/k/05", None), store.write("/k/055", b"new"), store.write("/k/07", b"changed")
        )
        await asyncio.gather(store.write("/k/09", None), store.write("/other", b""), store.write("/k/00", None))
        assert keys_of(store, "/k/") == [*names[1:5], "/k/055", *names[6:9]]
        while page.has_more:
            before = page.remaining
            page = store.range("/k/", start_after=seen[-1], limit=4, revision=page.revision)
            assert page.remaining == before - len(page.records)
            assert all(record.value == record.key.encode() for record in page.records)
            seen += [record.key for record in page.records]
        assert seen == names

    run(make_store(), scenario)


def test_last_page_has_no_continue_key(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        await put_all(store, "/k/1", "/k/2", "/l/1")
        page = store.range("/k/", limit=2)
        assert (len(page.records), page.has_more, page.remaining) == (2, False, 0)

    run(make_store(), scenario)


def test_range_rejects_compacted_and_future_revisions(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        for value in (b"1", b"2", b"3"):
            await store.write("/a", value)
        store.compact(3)
        assert store.compact_revision == 3
        assert [record.value for record in store.range("", revision=3).records] == [b"2"]
        assert [record.value for record in store.range("").records] == [b"3"]
        with pytest.raises(CompactedError) as caught:
            store.range("", revision=2)
        assert caught.value.compact_revision == 3
        with pytest.raises(FutureRevision):
            store.range("", revision=5)
        with pytest.raises(FutureRevision):
            store.compact(5)

    run(make_store(), scenario)


def test_compaction_to_an_older_revision_changes_nothing(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        await put_all(store, "/a", "/b", "/c")
        store.compact(3)
        store.compact(2)
        assert store.compact_revision == 3

    run(make_store(), scenario)


def test_subscriber_gets_history_then_every_event_once_in_order(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        await put_all(store, "/a/1", "/b/1", "/a/2")
        seen: list[StoreEvent] = []
        subscription = store.subscribe("/a/", 2, seen.extend)
        assert [event.revision for event in seen] == [4]
        for _ in range(5):  # several batches, some of which gather while another is in flight
            pending = [store.write(f"/a/{number}", b"x") for number in range(3)]
            await asyncio.sleep(0)
            pending += [store.write(f"/b/{number}", b"x") for number in range(3)]
            await asyncio.gather(*pending)
        subscription.cancel()
        subscription.cancel()
        await store.write("/a/1", b"unseen")
        assert seen == [event for event in store._history.since(2, "/a/") if event.revision < store.revision]
        revisions = [event.revision for event in seen]
        assert revisions == sorted(set(revisions))
        assert len(revisions) == 16

    run(make_store(), scenario)


def test_subscribers_are_notified_before_the_writer_and_after_the_state_change(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        order: list[str] = []

        def told(events: Sequence[StoreEvent]) -> None:
            assert store.revision == events[-1].revision
            assert store.get("/a") == events[-1].record
            order.append("subscriber")

        store.subscribe("", 1, told)
        write = store.write("/a", b"1")
        write.add_done_callback(lambda _: order.append("writer"))
        await write
        assert order == ["subscriber", "writer"]

    run(make_store(), scenario)


def test_subscribing_or_writing_within_a_callback_neither_loses_nor_repeats_events(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        inner: list[int] = []
        echo: list[asyncio.Future[StoreEvent]] = []

        def outer(events: Sequence[StoreEvent]) -> None:
            if not echo:
                echo.append(store.write("/echo", b""))
                store.subscribe("", 1, lambda events: inner.extend(event.revision for event in events))

        store.subscribe("", 1, outer)
        await put_all(store, "/a", "/b")
        await echo[0]
        assert inner == [2, 3, 4]

    run(make_store(), scenario)


def test_failing_subscriber_is_cancelled_and_reported_without_affecting_others(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        reports: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
        seen: list[StoreEvent] = []

        def broken(events: Sequence[StoreEvent]) -> None:
            raise ZeroDivisionError

        store.subscribe("", 1, broken)
        store.subscribe("", 1, seen.extend)
        await store.write("/a", b"1")
        await store.write("/a", b"2")
        assert len(seen) == 2
        assert [type(report["exception"]) for report in reports] == [ZeroDivisionError]

    run(make_store(), scenario)


def test_subscription_rejects_compacted_and_future_revisions(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        await put_all(store, "/a", "/b", "/c")
        store.compact(3)
        seen: list[StoreEvent] = []
        store.subscribe("", 3, seen.extend)
        assert [event.revision for event in seen] == [4]
        with pytest.raises(CompactedError):
            store.subscribe("", 2, seen.extend)
        with pytest.raises(FutureRevision):
            store.subscribe("", 5, seen.extend)

    run(make_store(), scenario)


def test_watch_resumes_at_the_revision_of_another(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        revisions: list[int] = []
        writes = [store.write(f"/k/{number}", b"") for number in range(5)]
        while len(revisions) < 10:
            async for batch in store.watch("/k/", revisions[-1] if revisions else 1):
                revisions += [event.revision for event in batch]
                break
            await asyncio.gather(*writes)
            writes = [store.write(f"/k/{number}", None) for number in range(5)] if len(revisions) == 5 else writes
        assert revisions == list(range(2, 12))

    run(make_store(), scenario)


def test_slow_watch_is_closed_with_an_error(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        await put_all(store, "/a", "/b", "/c")
        watch = store.watch("", 1, buffer=2)
        assert len(await anext(watch)) == 3  # the replay does not count
        await put_all(store, "/d", "/e")
        seen = 0
        while seen < 2:  # in one batch or in two
            seen += len(await anext(watch))
        assert seen == 2
        await put_all(store, "/f", "/g")
        await put_all(store, "/h")
        with pytest.raises(WatchOverflow):
            await anext(watch)

    run(make_store(), scenario)


def test_watch_ends_on_cancellation_and_on_close(make_store: MakeStore) -> None:
    async def main() -> None:
        async with started(make_store()) as store:
            cancelled, waiting = store.watch("", 1), store.watch("", 1)
            cancelled.cancel()
            assert [batch async for batch in cancelled] == []
            consumer = asyncio.ensure_future(anext(waiting, None))
            await asyncio.sleep(0)
        assert await consumer is None

    asyncio.run(main())


def test_history_is_bounded_by_bytes_and_compacted_automatically(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        for number in range(100):
            await store.write("/a", bytes(1000))
            if number == 20:
                assert store.compact_revision == 1
        assert store.compact_revision > 50
        assert store.compact_revision < store.revision - 20
        with pytest.raises(CompactedError):
            store.watch("", 1)

    run(make_store(history_bytes=50_000), scenario)


def test_failed_flush_rolls_back_and_the_store_continues(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(store: AnyStore) -> None:
        seen: list[StoreEvent] = []
        store.subscribe("", 1, seen.extend)
        await store.write("/a", b"kept")
        with monkeypatch.context() as broken:
            break_writes(store, broken, "the disk is full")
            failing = [store.write("/a", b"lost", 2), store.write("/b", b"lost", 0)]
            peeked = [peeked_revision(store, "/a"), peeked_revision(store, "/b")]
            failing.append(store.write("/a", None, peeked[0]))
            await asyncio.sleep(0)
            failing.append(store.write("/b", b"gathered meanwhile", peeked[1]))
            results = await asyncio.gather(*failing, return_exceptions=True)
            assert store.last_error == "the disk is full"
            assert [str(result) for result in results] == ["the disk is full"] * 4
            assert all(isinstance(result, StoreError) for result in results)
        kept = store.get("/a")
        assert kept == store.peek("/a")
        assert kept is not None
        assert kept.value == b"kept"
        assert store.peek("/b") is None
        assert store.revision == 2
        again = await store.write("/a", b"again", 2)
        assert not store.last_error
        assert again.revision not in peeked  # a revision that was peeked at is never reused
        assert [event.revision for event in seen] == [2, again.revision]

    run(make_store(), scenario)


def test_close_flushes_pending_writes_and_rejects_new_ones(make_store: MakeStore) -> None:
    async def main() -> None:
        store = make_store()
        with pytest.raises(StoreClosed):
            store.write("/a", b"too early")
        await store.start()
        pending = [store.write(f"/{number}", b"") for number in range(3)]
        await store.close()
        assert [(await write).revision for write in pending] == [2, 3, 4]
        with pytest.raises(StoreClosed):
            store.write("/a", b"too late")

    asyncio.run(main())


def test_invalid_key_fails_alone(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        good = store.write("/good", b"")
        with pytest.raises(ValueError):
            store.write("/bad/\ud800", b"")
        assert (await good).revision == 2

    run(make_store(), scenario)


def test_a_snapshot_opens_with_the_same_state_and_history(make_store: MakeStore, tmp_path: Path) -> None:
    target = str(tmp_path / "snapshot.db")

    async def main() -> None:
        async with started(make_store()) as store:
            await put_all(store, "/a", "/b", "/c")
            await store.write("/a", b"changed")
            await store.write("/b", None)
            store.compact(4)
            await store.write("/d", b"")
            taken = await store.snapshot(target)
            with pytest.raises(StoreError, match="exists"):
                await store.snapshot(target)
            async with started(SqliteStore(target)) as copy:
                assert copy.range("").records == store.range("", revision=taken).records
                assert copy.range("", revision=4) == store.range("", revision=4)
                assert copy.compact_revision == store.compact_revision
                assert copy._history.since(4) == store._history.since(4)
                assert copy.cluster_id == store.cluster_id
                assert (await copy.write("/e", b"")).revision == copy.revision > 7

    asyncio.run(main())


def test_store_is_selected_by_url(tmp_path: Path) -> None:
    assert type(open_store("memory")).__name__ == "MemoryStore"
    assert type(open_store(f"sqlite:{tmp_path}/x.db")).__name__ == "SqliteStore"
    for url in ("", "sqlite", "sqlite:", "etcd:x", "memory:x"):
        with pytest.raises(StoreError, match="unknown store"):
            open_store(url)


def test_settled_writes_are_visible_to_all_readers(make_store: MakeStore) -> None:
    async def scenario(store: AnyStore) -> None:
        writes = [store.write(f"/{number}", b"x") for number in range(3)]
        assert store.get("/2") is None
        await store.wait_settled()
        assert all(write.done() for write in writes)
        assert keys_of(store) == ["/0", "/1", "/2"]
        assert store.rollbacks == 0

    run(make_store(), scenario)


def test_no_op_writes_are_counted(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(store: AnyStore) -> None:
        break_writes(store, monkeypatch, "no")
        write = store.write("/a", b"x")
        await store.wait_settled()
        assert isinstance(write.exception(), StoreError)
        assert store.rollbacks == 1

    run(make_store(), scenario)
