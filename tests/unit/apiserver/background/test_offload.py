# SPDX-License-Identifier: Apache-2.0
"""Long work is done beside the event loop; short work is not sent away."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kubeloop.api.cel.check.types import INT, list_of
from kubeloop.api.cel.library.kubernetes import kubernetes_environment
from kubeloop.api.cel.program import compile_expression
from kubeloop.apiserver.background.offload import WorkerThread, call_in_loop, call_on_owner, is_expensive_json

NESTED = compile_expression("l.all(x, l.all(y, x + y >= 0))", kubernetes_environment().extend({"l": list_of(INT)}))


@pytest.fixture
def aside() -> Iterator[WorkerThread]:
    found = WorkerThread()
    found.start()
    yield found
    found.close()


def where() -> str:
    return threading.current_thread().name


def evaluated(length: int) -> tuple[Any, str]:
    return NESTED.evaluate({"l": list(range(length))})[0], where()


def test_unstarted_worker_runs_in_place() -> None:
    here = where()
    assert asyncio.run(WorkerThread().run(where)) == here
    assert asyncio.run(WorkerThread().run_within_budget(evaluated, 100)) == (True, here)


def test_long_work_runs_in_another_thread(aside: WorkerThread) -> None:
    assert asyncio.run(aside.run(where)) == "aside"


def test_expressions_start_here_and_expensive_ones_are_offloaded(aside: WorkerThread) -> None:
    assert asyncio.run(aside.run_within_budget(evaluated, 10)) == (True, where())
    assert asyncio.run(aside.run_within_budget(evaluated, 100)) == (True, "aside")


def test_several_cheap_expressions_may_be_expensive(aside: WorkerThread) -> None:
    def many() -> str:
        for _ in range(30):
            evaluated(10)
        return where()

    assert asyncio.run(aside.run_within_budget(many)) == "aside"


def test_a_job_reads_data_of_the_event_loop_through_the_loop(aside: WorkerThread) -> None:
    here = where()
    assert asyncio.run(aside.run(lambda: (where(), call_on_owner(where)))) == ("aside", here)
    assert call_on_owner(where) == here


def test_errors_in_the_worker_are_raised_in_the_caller(aside: WorkerThread) -> None:
    def fail() -> None:
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        asyncio.run(aside.run(fail))
    assert asyncio.run(aside.run(where)) == "aside"


def test_switch_interval_is_shorter_only_during_offloaded_work(aside: WorkerThread) -> None:
    usual = sys.getswitchinterval()

    def fail() -> None:
        raise LookupError(sys.getswitchinterval())

    assert asyncio.run(aside.run(sys.getswitchinterval)) == pytest.approx(0.001)
    assert sys.getswitchinterval() == usual
    with pytest.raises(LookupError, match=r"0\.001"):
        asyncio.run(aside.run(fail))
    assert sys.getswitchinterval() == usual


def test_other_tasks_run_meanwhile(aside: WorkerThread) -> None:
    goes_on = threading.Event()

    async def both() -> bool:
        long = asyncio.ensure_future(aside.run(goes_on.wait, 10))
        await asyncio.sleep(0)
        goes_on.set()  # by the loop, which is not held up
        return await long

    assert asyncio.run(both())


def test_cancelled_work_is_not_started(aside: WorkerThread) -> None:
    first_may_end = threading.Event()
    done: list[str] = []

    async def leave() -> None:
        first = asyncio.ensure_future(aside.run(first_may_end.wait, 10))
        second = asyncio.ensure_future(aside.run(done.append, "second"))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        first_may_end.set()
        await first
        await aside.run(done.append, "third")

    asyncio.run(leave())
    assert done == ["third"]


def test_calls_from_the_worker_run_in_the_event_loop(aside: WorkerThread) -> None:
    async def ask(from_aside: bool) -> str:
        question: Callable[[], str] = call_in_loop(asyncio.get_running_loop(), where)
        return await aside.run(question) if from_aside else question()

    assert asyncio.run(ask(from_aside=True)) == where()
    assert asyncio.run(ask(from_aside=False)) == where()


@pytest.mark.parametrize(
    ("text", "long"),
    [
        (b"{}" * 4000, False),
        (b'{"a":"' + b"x" * 60_000 + b'"}', False),
        (b'{"a":"' + b"x" * 3_000_000 + b'"}', True),
        (b"[" + b"{}," * 3000 + b"{}]", True),
        (b"[" + b"1," * 20_000 + b"1]", True),
    ],
)
def test_expensive_json_is_detected_by_its_content(text: bytes, long: bool) -> None:
    assert is_expensive_json(text) is long
