# SPDX-License-Identifier: Apache-2.0
"""Tests of shared freshness queries to etcd: no reader gets an older result."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.protobuf_wire import bytes_field, integer_field
from kubeloop.store.errors import StoreError
from kubeloop.store.etcd.client import EtcdClient, Unavailable
from kubeloop.store.etcd.revision_query import RevisionQuery


class FakeEtcd:
    """Fake etcd: responds with its revision, or fails, on request."""

    def __init__(self) -> None:
        self.revision = 1
        self.asked: list[tuple[int, asyncio.Future[bytes]]] = []
        self.most_at_once = 0

    async def call(self, method: str, request: bytes) -> bytes:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.asked.append((self.revision, answer))
        self.most_at_once = max(self.most_at_once, len(self.asked))
        return await answer

    def answer(self, number: int = 0) -> None:
        revision, answer = self.asked.pop(number)
        answer.set_result(bytes_field(1, integer_field(1, 2**63) + integer_field(3, revision)))


def freshness_of(etcd: FakeEtcd) -> RevisionQuery:
    return RevisionQuery(cast(EtcdClient, etcd))


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_simultaneous_readers_share_a_query() -> None:
    async def main() -> None:
        etcd = FakeEtcd()
        freshness = freshness_of(etcd)
        readers = [asyncio.ensure_future(freshness.revision()) for _ in range(10)]
        await turns()
        assert len(etcd.asked) == 1
        etcd.answer()
        assert await asyncio.gather(*readers) == [1] * 10

    asyncio.run(main())


def test_reader_arriving_during_a_query_waits_for_the_next() -> None:
    async def main() -> None:
        etcd = FakeEtcd()
        freshness = freshness_of(etcd)
        early = asyncio.ensure_future(freshness.revision())
        await turns()
        etcd.revision = 2
        late = asyncio.ensure_future(freshness.revision())
        await turns()
        etcd.answer(1)
        assert await late == 2
        assert not early.done()
        etcd.answer()
        assert await early == 1

    asyncio.run(main())


@given(st.lists(st.sampled_from(["read", "write", "answer first", "answer last", "leave", "turn"]), max_size=60))
@settings(max_examples=60, deadline=None)
def test_reader_never_gets_an_older_revision(steps: list[str]) -> None:
    async def main() -> None:
        etcd = FakeEtcd()
        freshness = freshness_of(etcd)
        readers: list[tuple[int, asyncio.Future[int]]] = []
        for step in [*steps, "turn"]:
            if step == "read":
                readers.append((etcd.revision, asyncio.ensure_future(freshness.revision())))
                await asyncio.sleep(0)  # it has called
            elif step == "write":
                etcd.revision += 1
            elif step == "leave" and readers:
                readers.pop()[1].cancel()
            elif step == "turn":
                await turns()
            elif step.startswith("answer") and etcd.asked:
                etcd.answer(0 if step.endswith("first") else -1)
        while not all(reader.done() for _, reader in readers):
            await turns()
            if etcd.asked:
                etcd.answer()
        assert all(reader.result() >= there_was for there_was, reader in readers)
        assert etcd.most_at_once <= 4
        await freshness.close()

    asyncio.run(main())


def test_failed_query_fails_its_readers_and_the_next_is_sent() -> None:
    async def main() -> None:
        etcd = FakeEtcd()
        freshness = freshness_of(etcd)
        readers = [asyncio.ensure_future(freshness.revision()) for _ in range(2)]
        await turns()
        etcd.asked.pop()[1].set_exception(Unavailable("etcd does not respond"))
        for reader in readers:
            with pytest.raises(StoreError, match="does not respond"):
                await reader
        later = asyncio.ensure_future(freshness.revision())
        await turns()
        etcd.answer()
        assert await later == 1

    asyncio.run(main())


def test_close_fails_waiting_readers() -> None:
    async def main() -> None:
        etcd = FakeEtcd()
        freshness = freshness_of(etcd)
        asked = asyncio.ensure_future(freshness.revision())
        await turns()
        waiting = asyncio.ensure_future(freshness.revision())
        await asyncio.sleep(0)
        await freshness.close()
        for reader in (asked, waiting):
            with pytest.raises(StoreError, match="closed"):
                await reader

    asyncio.run(main())
