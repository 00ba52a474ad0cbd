# SPDX-License-Identifier: Apache-2.0
"""Model test: any sequence of operations leaves a store in the state of a dictionary per revision."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from kubeloop.store import CompactedError, StoreConflict, StoreError, StoreEvent
from kubeloop.store.etcd.store import EtcdStore
from tests.contract.stores import AnyStore, EtcdSupply, break_writes, local_store_maker
from tests.etcd_processes import EtcdCluster

T = TypeVar("T")

keys = st.sampled_from(["/a/1", "/a/2", "/a/10", "/ab", "/b/1", "/b/é"])
prefixes = st.sampled_from(["", "/", "/a", "/a/", "/b/", "/none"])
values = st.none() | st.binary(max_size=20)
expectations = st.sampled_from(["anything", "absent", "newest", "wrong"])
batches = st.lists(st.tuples(keys, values, expectations, st.booleans()), min_size=1, max_size=8)


class StoreModel(RuleBasedStateMachine):
    """`states` maps each revision to all that was there then: key to value, created, changed."""

    backend = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.open()
        self.states: dict[int, dict[str, tuple[bytes, int, int]]] = {self.store.revision: {}}
        self.log: list[tuple[int, str, bytes | None]] = []
        self.compacted = self.store.compact_revision

    def make(self) -> AnyStore:
        return local_store_maker(self.backend, Path(self.folder.name))()

    def open(self) -> None:
        self.store = self.make()
        self.run(self.store.start())
        self.seen: list[StoreEvent] = []
        self.subscribed_at = self.store.revision
        self.store.subscribe("", self.subscribed_at, self.seen.extend)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        self.run(self.store.close())
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()
        self.folder.cleanup()

    @property
    def newest(self) -> int:
        return max(self.states)

    @rule(batch=batches)
    def write(self, batch: list[tuple[str, bytes | None, str, bool]]) -> None:
        self.run(self.write_all(batch))

    async def write_all(self, batch: list[tuple[str, bytes | None, str, bool]]) -> None:
        state = dict(self.states[self.newest])
        revision = self.next_revision() - 1
        pending = []
        for key, value, expectation, pause in batch:
            found = state.get(key)
            peeked = self.store.peek(key)  # a shared store learns the real revision later
            newest = peeked.mod_revision if peeked else 0
            expected = {"anything": None, "absent": 0, "newest": newest, "wrong": revision + 5}[expectation]
            if (expected is not None and expected != newest) or (value is None and not found):
                with pytest.raises(StoreConflict) as refused:
                    self.store.write(key, value, expected)
                current = refused.value.current
                assert (current.mod_revision if current else 0) == newest
                continue
            pending.append(self.store.write(key, value, expected))
            revision += 1
            if value is None:
                del state[key]
            else:
                state[key] = (value, found[1] if found else revision, revision)
            self.states[revision] = dict(state)
            self.log.append((revision, key, value))
            if pause:
                await asyncio.sleep(0)  # others gather into the next batch
        assert {key: record for key in state if (record := self.store.peek(key))}.keys() == state.keys()
        for future, (revision, key, _) in zip(pending, self.log[len(self.log) - len(pending) :], strict=True):
            event = await future
            assert (event.revision, event.key) == (revision, key)

    def next_revision(self) -> int:
        """Revisions of writes that failed are not used again."""
        assert not isinstance(self.store, EtcdStore)
        return self.store._newest_revision + 1

    @rule(batch=batches)
    def fail(self, batch: list[tuple[str, bytes | None, str, bool]]) -> None:
        self.run(self.fail_all(batch))

    async def fail_all(self, batch: list[tuple[str, bytes | None, str, bool]]) -> None:
        with pytest.MonkeyPatch.context() as broken:
            break_writes(self.store, broken, "broken")
            pending = [self.store.write(key, value or b"lost") for key, value, _, _ in batch]
            results = await asyncio.gather(*pending, return_exceptions=True)
        assert all(isinstance(result, StoreError) for result in results)

    @rule(part=st.floats(0, 1))
    def compact(self, part: float) -> None:
        self.compacted = max(self.compacted, self.some_revision(part))
        self.store.compact(self.compacted)

    @rule()
    def reopen(self) -> None:
        if self.backend != "memory":
            self.run(self.store.close())
            self.open()

    @rule(part=st.floats(0, 1), prefix=prefixes, limit=st.integers(0, 4))
    def read_pages_of_the_past(self, part: float, prefix: str, limit: int) -> None:
        revision = self.some_revision(part)
        if revision < self.compacted:
            with pytest.raises(CompactedError):
                self.store.range(prefix, revision=revision)
            return
        found: list[tuple[str, tuple[bytes, int, int]]] = []
        page = self.store.range(prefix, limit=limit, revision=revision)
        expected = sorted(item for item in self.states[revision].items() if item[0].startswith(prefix))
        while True:
            found += [(r.key, (r.value, r.create_revision, r.mod_revision)) for r in page.records]
            assert page.remaining == len(expected) - len(found)
            assert page.has_more == (page.remaining > 0)
            if not page.has_more:
                break
            page = self.store.range(prefix, start_after=found[-1][0], limit=limit, revision=revision)
        assert found == expected

    @rule(part=st.floats(0, 1), prefix=prefixes)
    def replay(self, part: float, prefix: str) -> None:
        after = max(self.compacted, self.some_revision(part))
        events: list[StoreEvent] = []
        self.store.subscribe(prefix, after, events.extend).cancel()
        expected = [entry for entry in self.log if entry[0] > after and entry[1].startswith(prefix)]
        assert [flat(event) for event in events] == expected
        for event in events:
            before = self.states[max(r for r in self.states if r < event.revision)].get(event.key)
            assert (event.previous.value if event.previous else None) == (before[0] if before else None)

    def some_revision(self, part: float) -> int:
        known = sorted(self.states)
        return known[min(int(part * len(known)), len(known) - 1)]

    @invariant()
    def the_present_is_right(self) -> None:
        assert (self.store.revision, self.store.compact_revision) == (self.newest, self.compacted)
        present = {r.key: (r.value, r.create_revision, r.mod_revision) for r in self.store.range("").records}
        assert present == self.states[self.newest]
        assert all(self.store.get(key) == self.store.peek(key) is not None for key in present)

    @invariant()
    def subscribers_saw_everything_once(self) -> None:
        assert [flat(event) for event in self.seen] == [e for e in self.log if e[0] > self.subscribed_at]


def flat(event: StoreEvent) -> tuple[int, str, bytes | None]:
    return event.revision, event.key, event.record.value if event.record else None


class SqliteModel(StoreModel):
    backend = "sqlite"


class EtcdModel(StoreModel):
    """All examples share a server: each has its own prefix, and starts at the revision of the one before."""

    backend = "etcd"
    cluster: EtcdCluster
    prefixes = itertools.count()

    def make(self) -> AnyStore:
        if not hasattr(self, "prefix"):
            self.prefix = f"/example-{next(self.prefixes)}/"
        return EtcdStore(self.cluster.config(self.prefix))

    def next_revision(self) -> int:
        return self.store.revision + 1

    @rule(part=st.floats(0, 1))
    def compact(self, part: float) -> None:
        """Compaction of etcd is coordinated by a key."""
        super().compact(part)
        self.run(self.settle())
        self.note_revision()

    async def settle(self) -> None:
        assert isinstance(self.store, EtcdStore)
        while self.store._tasks:
            await asyncio.wait(self.store._tasks)
        await self.store.wait_current()

    @rule()
    def reopen(self) -> None:
        """The first compaction of a new server only determines the compacting server: more history may be available
        than before.
        """
        super().reopen()
        self.compacted = self.store.compact_revision
        self.note_revision()

    def note_revision(self) -> None:
        self.states.setdefault(self.store.revision, self.states[self.newest])


TestMemoryStoreModel = StoreModel.TestCase
TestMemoryStoreModel.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestSqliteStoreModel = SqliteModel.TestCase
TestSqliteStoreModel.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)


def test_etcd_store_model(etcd_servers: EtcdSupply) -> None:
    with etcd_servers.fresh() as cluster:
        EtcdModel.cluster = cluster
        run_state_machine_as_test(EtcdModel, settings=settings(max_examples=10, stateful_step_count=15, deadline=None))
