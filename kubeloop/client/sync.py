# SPDX-License-Identifier: Apache-2.0
"""Blocking client for scripts and notebooks: each call runs on the async client's event loop in a thread.

Every public method of `Client` is available under its name; nothing is implemented twice.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Protocol

from kubeloop.client.client import Client
from kubeloop.client.config.server_config import ServerConfig


class LoopRunner(Protocol):
    """Owner of the event loop on which a client's calls run."""

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine and wait for its result."""


class _LoopThread:
    """Thread with an event loop that runs until it is stopped."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kubeloop client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine and wait for its result; an interrupt cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncClient:
    """Blocking `Client`. Async iterators become plain ones; close or exhaust them to release a watch."""

    def __init__(self, config: ServerConfig | None = None, **options: Any) -> None:
        """Create a client; takes the arguments of `kubeloop.client.connect`."""
        from kubeloop.client.http.connect import connect

        async def make() -> Client:
            return connect(config, **options)

        thread = _LoopThread()
        self._runner: LoopRunner = thread
        self._stop = thread.stop
        try:
            self._client: Client = thread.run(make())
        except BaseException:
            thread.stop()
            raise

    @classmethod
    def wrap(cls, client: Client, runner: LoopRunner) -> SyncClient:
        """Wrap an existing client whose event loop the caller runs and closes."""
        view = object.__new__(cls)
        view._client, view._runner, view._stop = client, runner, lambda: None
        return view

    def _like(self, client: Client) -> SyncClient:
        view = SyncClient.wrap(client, self._runner)
        view._stop = self._stop
        return view

    def close(self) -> None:
        """Close the connections, and the thread if this client started it."""
        try:
            self._runner.run(self._client.close())
        finally:
            self._stop()

    def __enter__(self) -> SyncClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Declare the methods set below to type checkers."""
        raise AttributeError(f"SyncClient has no {name}")


def _blocking(method: Callable[..., Any]) -> Callable[..., Any]:
    """Convert a method of `Client` to a blocking one."""
    if inspect.isasyncgenfunction(method):

        @wraps(method)
        def iterate(self: SyncClient, *args: Any, **kwargs: Any) -> Iterator[Any]:
            return _drained(self._runner, method(self._client, *args, **kwargs))

        return iterate
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        def call(self: SyncClient, *args: Any, **kwargs: Any) -> Any:
            return self._runner.run(method(self._client, *args, **kwargs))

        return call

    @wraps(method)
    def same(self: SyncClient, *args: Any, **kwargs: Any) -> Any:
        answer = method(self._client, *args, **kwargs)
        return self._like(answer) if isinstance(answer, Client) else answer

    return same


def _drained(runner: LoopRunner, items: AsyncIterator[Any]) -> Iterator[Any]:
    end = object()

    async def following() -> Any:
        return await anext(items, end)

    async def close() -> None:
        await items.aclose()  # type: ignore[attr-defined]  # an async generator

    try:
        while (item := runner.run(following())) is not end:
            yield item
    finally:
        runner.run(close())


for _name, _method in vars(Client).items():
    if inspect.isfunction(_method) and not _name.startswith("_") and _name not in vars(SyncClient):
        setattr(SyncClient, _name, _blocking(_method))
