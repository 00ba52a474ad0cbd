# SPDX-License-Identifier: Apache-2.0
"""Queries etcd's revision: once for all callers of one turn of the event loop, with a few queries in flight.

A linearizable read takes time, since members have to agree. With a single query in flight, a caller that arrives
meanwhile would wait for two of them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kubeloop.store.errors import StoreError
from kubeloop.store.etcd.client import RANGE, EtcdClient
from kubeloop.store.etcd.messages import range_request, read_revision

_MAX_QUERIES = 4  # each costs etcd and us some time; with more of them, fewer would share one
_REQUEST = range_request(b"\0", count_only=True)


class RevisionQuery:
    """Batches revision queries: a response counts only for callers that came before its query was sent."""

    def __init__(self, connection: EtcdClient) -> None:
        self._connection = connection
        self._waiting: list[asyncio.Future[int]] = []
        self._questions: set[asyncio.Task[None]] = set()

    async def revision(self) -> int:
        """Return at least the newest revision acknowledged to any client before this call."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[int] = loop.create_future()
        self._waiting.append(answer)
        if len(self._waiting) == 1:
            loop.call_soon(self._ask)
        return await answer

    async def close(self) -> None:
        """Fail the waiting callers and cancel the queries."""
        waiting, self._waiting = self._waiting, []
        _fail(waiting, "the store is closed")
        for question in tuple(self._questions):
            question.cancel()
            with suppress(asyncio.CancelledError):
                await question

    def _ask(self) -> None:
        if self._waiting and len(self._questions) < _MAX_QUERIES:
            waiting, self._waiting = self._waiting, []
            question = asyncio.get_running_loop().create_task(self._answer(waiting))
            self._questions.add(question)
            question.add_done_callback(self._on_response)

    def _on_response(self, question: asyncio.Task[None]) -> None:
        self._questions.discard(question)
        self._ask()

    async def _answer(self, waiting: list[asyncio.Future[int]]) -> None:
        try:
            revision = read_revision(await self._connection.call(RANGE, _REQUEST))
        except asyncio.CancelledError:
            _fail(waiting, "the store is closed")
            raise
        except Exception as error:  # every waiting caller must get a result
            _fail(waiting, str(error))
            return
        for answer in waiting:
            if not answer.done():  # callers may have been cancelled
                answer.set_result(revision)


def _fail(waiting: list[asyncio.Future[int]], why: str) -> None:
    for answer in waiting:
        if not answer.done():
            answer.set_exception(StoreError(why))
