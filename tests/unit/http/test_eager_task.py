# SPDX-License-Identifier: Apache-2.0
"""A handler runs in a task from its first statement on, whether or not it ever waits."""

import asyncio
import gc
import weakref
from contextvars import ContextVar

import pytest

from kubeloop.http import HttpHooks, Request, Response
from kubeloop.http.eager_task import StandbyTaskStarter, TaskStarter, task_starter
from tests.bounds import GIVE_UP_SECONDS


async def body_of(client, path: str) -> bytes:
    client.get(path)
    return (await client.answer()).body


async def path_of(request: Request) -> Response:
    return Response(200, request.path.encode())


def test_timeout_in_the_first_statement_of_a_handler_without_wait(run, site):
    async def handler(request: Request) -> Response:
        async with asyncio.timeout(GIVE_UP_SECONDS):
            return await path_of(request)

    async def check() -> None:
        async with site(handler) as s:
            client = await s.connect()
            assert [await body_of(client, path) for path in ("/a", "/b")] == [b"/a", b"/b"]

    run(check())


def test_timeout_in_the_first_statement_of_a_handler_with_wait(run, site):
    async def handler(request: Request) -> Response:
        try:
            async with asyncio.timeout(0.01 if request.path == "/late" else GIVE_UP_SECONDS):
                await asyncio.sleep(10 if request.path == "/late" else 0.001)
        except TimeoutError:
            return Response(200, b"late")
        return Response(200, b"in time")

    async def check() -> None:
        async with site(handler) as s:
            client = await s.connect()
            assert await body_of(client, "/soon") == b"in time"
            assert await body_of(client, "/late") == b"late"
            assert await body_of(client, "/soon") == b"in time"

    run(check())


def test_a_task_group_in_the_first_statement(run, site):
    async def part(path: str) -> bytes:
        await asyncio.sleep(0)
        if path == "/bad":
            raise ValueError
        return path.encode()

    async def handler(request: Request) -> Response:
        try:
            async with asyncio.TaskGroup() as group:
                parts = [group.create_task(part(request.path)) for _ in range(2)]
        except ExceptionGroup as failures:
            return Response(200, type(failures.exceptions[0]).__name__.encode())
        return Response(200, b"".join(one.result() for one in parts))

    async def check() -> None:
        async with site(handler) as s:
            client = await s.connect()
            assert [await body_of(client, path) for path in ("/a", "/bad", "/a")] == [b"/a/a", b"ValueError", b"/a/a"]

    run(check())


def test_task_is_stable_and_exclusive(run, site):
    tasks: dict[str, list[asyncio.Task[object] | None]] = {}

    async def handler(request: Request) -> Response:
        seen = tasks.setdefault(request.path, [])
        for _ in range(3):
            seen.append(asyncio.current_task())
            await asyncio.sleep(0.001)
        return Response()

    async def check() -> None:
        async with site(handler) as s:
            clients = [await s.connect() for _ in range(4)]
            for number, client in enumerate(clients):
                client.get(f"/{number}")
            for client in clients:
                await client.answer()
        assert [len(set(seen)) for seen in tasks.values()] == [1] * 4
        assert len({seen[0] for seen in tasks.values()}) == 4
        assert all(seen[0] is not None for seen in tasks.values())

    run(check())


def test_pipelined_requests_have_separate_tasks(run, site):
    tasks: list[asyncio.Task[object] | None] = []

    async def handler(request: Request) -> Response:
        async with asyncio.timeout(GIVE_UP_SECONDS):
            tasks.append(asyncio.current_task())
            if request.path != "/second":
                await asyncio.sleep(0.001)
        return Response(200, request.path.encode())

    async def check() -> None:
        async with site(handler) as s:
            client = await s.connect()
            for path in ("/first", "/second", "/third"):
                client.get(path)
            assert [(await client.answer()).body for _ in range(3)] == [b"/first", b"/second", b"/third"]
        assert tasks[0] not in tasks[1:]

    run(check())


def test_handler_within_a_timeout_is_cancelled_when_the_client_disconnects(run, site):
    async def check() -> None:
        running, cancelled = asyncio.Event(), asyncio.Event()

        async def handler(_: Request) -> Response:
            async with asyncio.timeout(GIVE_UP_SECONDS):
                running.set()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.set()
                    raise
            return Response()

        async with site(handler) as s:
            client = await s.connect()
            client.get("/")
            await running.wait()
            await client.close()
            await cancelled.wait()

    run(check())


def test_handler_that_cancels_itself_affects_no_other(run, site):
    async def handler(request: Request) -> Response:
        task = asyncio.current_task()
        assert task is not None
        if request.path != "/good":
            task.cancel()
        if request.path != "/cancelled":
            await asyncio.sleep(0.001)
        return Response(200, b"done")

    async def check() -> None:
        hooks = HttpHooks(on_error=lambda _, error: Response(500, type(error).__name__.encode()))
        async with site(handler, hooks=hooks) as s:
            client = await s.connect()
            for path, body in (
                ("/cancelled", b"done"),
                ("/cancelled-later", b"CancelledError"),
                ("/good", b"done"),
            ) * 2:
                assert await body_of(client, path) == body

    run(check())


def test_context_variables_are_per_request(run, site):
    variable: ContextVar[str] = ContextVar("variable", default="none")

    async def handler(request: Request) -> Response:
        before = variable.get()
        variable.set(request.path)
        if request.path == "/waits":
            await asyncio.sleep(0.001)
        return Response(200, f"{before} {variable.get()}".encode())

    async def check() -> None:
        async with site(handler) as s:
            client = await s.connect()
            for path in ("/a", "/waits", "/b", "/waits"):
                assert await body_of(client, path) == f"none {path}".encode()

    run(check())


# The starters themselves: the one of this Python version, and the one of Python 3.11, which works with all.


@pytest.fixture(params=[task_starter, StandbyTaskStarter])
def starter_type(request):
    return request.param


def test_ended_task_is_freed_without_the_garbage_collector(run, starter_type):
    async def check() -> None:
        starter: TaskStarter = starter_type(asyncio.get_running_loop())
        task = starter.start(asyncio.sleep(0.001))
        assert task is not None
        await task
        reference = weakref.ref(task)
        del task
        await asyncio.sleep(0)  # the wake-up of this coroutine refers to it
        assert reference() is None
        starter.close()

    gc.disable()
    try:
        run(check())
    finally:
        gc.enable()


def test_task_cancelled_before_the_first_iteration_cancels_its_future(run, starter_type):
    async def check() -> None:
        loop = asyncio.get_running_loop()
        starter: TaskStarter = starter_type(loop)
        for _ in range(2):  # with a new task, and with one that exists in advance
            waited: asyncio.Future[None] = loop.create_future()
            ended: list[str] = []
            task = starter.start(_wait_for(waited, ended))
            assert task is not None
            task.cancel()
            await asyncio.wait((task,))
            assert (ended, waited.cancelled(), task.cancelled()) == (["cancelled"], True, True)
            starter.start(_wait_for(None, ended))
            await asyncio.sleep(0)
        starter.close()

    run(check())


def test_a_cancellation_after_the_result_reaches_the_coroutine(run, starter_type):
    async def check() -> None:
        loop = asyncio.get_running_loop()
        starter: TaskStarter = starter_type(loop)
        waited: asyncio.Future[None] = loop.create_future()
        ended: list[str] = []
        task = starter.start(_wait_for(waited, ended))
        assert task is not None
        waited.set_result(None)
        task.cancel()
        await asyncio.wait((task,))
        assert ended == ["cancelled"]
        starter.close()

    run(check())


def test_the_starting_task_is_the_current_one_again(run, starter_type):
    async def check() -> None:
        starter: TaskStarter = starter_type(asyncio.get_running_loop())
        outer = asyncio.current_task()
        seen: list[asyncio.Task[object] | None] = []

        async def look() -> None:
            seen.append(asyncio.current_task())

        assert starter.start(look()) is None
        assert asyncio.current_task() is outer
        assert seen[0] not in (None, outer)
        starter.close()

    run(check())


async def _wait_for(waited: asyncio.Future[None] | None, ended: list[str]) -> None:
    try:
        if waited is not None:
            await waited
    except asyncio.CancelledError:
        ended.append("cancelled")
        raise
