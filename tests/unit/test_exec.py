# SPDX-License-Identifier: Apache-2.0
"""Programs run as child processes: output, input, time limits, and cancellations at any moment of the start."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from kubeloop.exec import CommandResult, run_command
from tests.bounds import GIVE_UP_SECONDS

LOOPS = pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
# Turns of the event loop within which a program is started, and some more.
TURNS = range(12)


def shell(script: str) -> tuple[str, str, str]:
    return "/bin/sh", "-c", script


@LOOPS
def test_input_output_and_exit_code(loop_factory: object) -> None:
    done = run(loop_factory, run_command(shell("cat; echo no >&2; exit 3"), stdin=b"yes"))
    assert done == CommandResult(3, b"yes", b"no\n")


@LOOPS
def test_environment_and_signal(loop_factory: object) -> None:
    done = run(loop_factory, run_command(shell("echo $NAME; kill -9 $$"), env={"NAME": "value"}))
    assert done == CommandResult(-signal.SIGKILL, b"value\n", b"")


@LOOPS
def test_a_missing_program(loop_factory: object) -> None:
    with pytest.raises(FileNotFoundError):
        run(loop_factory, run_command(("/nowhere/program",)))


@LOOPS
def test_a_timeout_kills_the_program_and_its_children(loop_factory: object, tmp_path: Path) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/child; wait"

    async def time_out() -> None:
        with pytest.raises(TimeoutError):
            await run_command(shell(script), seconds=1)

    run(loop_factory, time_out())
    if (child := tmp_path / "child").exists():
        wait_ended(int(child.read_text()))


@LOOPS
def test_a_child_with_its_own_session_delays_nothing(loop_factory: object, tmp_path: Path) -> None:
    """The child keeps the pipes open, and nothing of this process waits until it closes them."""
    script = f"setsid sh -c 'echo $$ > {tmp_path}/child; exec sleep 1000' & wait"

    async def cancel_with_child() -> None:
        running = asyncio.ensure_future(run_command(shell(script)))
        await asyncio.to_thread(wait_text, tmp_path / "child")
        running.cancel()
        await asyncio.wait((running,), timeout=GIVE_UP_SECONDS)
        assert running.cancelled()

    try:
        run(loop_factory, cancel_with_child())
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("turns", TURNS)
@LOOPS
def test_a_cancellation_at_any_moment_leaves_no_process(loop_factory: object, turns: int) -> None:
    """A cancelled start of asyncio alone may wait forever, and leaves the children of the program."""
    mark = f"900{os.getpid()}"

    async def cancel_after_turns() -> None:
        running = asyncio.ensure_future(run_command(shell(f"sleep {mark} & wait")))
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait((running,), timeout=GIVE_UP_SECONDS)
        assert running.cancelled()

    run(loop_factory, cancel_after_turns())
    for pid in processes_with(mark):
        wait_ended(pid)


def run(loop_factory: object, main: object) -> object:
    with asyncio.Runner(loop_factory=loop_factory) as runner:  # type: ignore[arg-type]
        return runner.run(main)  # type: ignore[arg-type]


def wait_text(file: Path) -> None:
    wait_until(lambda: file.exists() and file.read_text().endswith("\n"))


def wait_ended(pid: int) -> None:
    wait_until(lambda: not is_running(pid))


def wait_until(holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + GIVE_UP_SECONDS
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.001)


def is_running(pid: int) -> bool:
    """Return False for a process that has ended, also if its parent has not noticed yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def processes_with(argument: str) -> list[int]:
    """Return the processes that have this argument: they must end, because they were killed."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if argument.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found
