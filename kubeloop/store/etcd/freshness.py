"""Asks etcd how far it is: one question at a time, for everybody who has come before it was asked."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kubeloop.store.errors import StoreError
from kubeloop.store.etcd.connection import Connection
from kubeloop.store.etcd.loading import current_revision


class Freshness:
    """An answer counts only for those who came before the question: what happened since is not in it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._next: asyncio.Future[int] | None = None
        self._asking: asyncio.Task[None] | None = None

    async def revision(self) -> int:
        """At least the newest revision that anybody was told of before this call."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            if self._asking is None:
                self._asking = asyncio.get_running_loop().create_task(self._ask())
        return await asyncio.shield(self._next)

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            with suppress(asyncio.CancelledError):
                await self._asking

    async def _ask(self) -> None:
        try:
            while (question := self._next) is not None:
                self._next = None
                question.add_done_callback(_look_at)
                try:
                    question.set_result((await current_revision(self._connection)).revision)
                except StoreError as error:
                    question.set_exception(error)
                except asyncio.CancelledError:
                    question.cancel()
                    raise
        finally:
            self._asking = None


def _look_at(question: asyncio.Future[int]) -> None:
    """Those who asked may have left."""
    if not question.cancelled():
        question.exception()
