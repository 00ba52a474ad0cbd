# SPDX-License-Identifier: Apache-2.0
"""Runs a server until a signal: one line when it is ready or cannot start, and a clean shutdown."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Protocol

import uvloop

from kubeloop.apiserver.server import StartupError
from kubeloop.cli.pki.files import PkiFileError
from kubeloop.cli.pki.kubeconfig import KubeconfigError
from kubeloop.cli.program.idle_collection import collect_when_idle
from kubeloop.cli.program.logs import configure_logging
from kubeloop.store import StoreError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# How much is made before garbage is looked for, and how often older generations are. Most objects never are in a cycle;
# what requests leave behind is a few tasks and tracebacks, so looking seldom costs little memory and saves much time.
GC_THRESHOLDS = (50_000, 20, 100)


class Running(Protocol):
    """Started server."""

    async def close(self) -> None:
        """Stop the server."""


def run_in_foreground(
    start: Callable[[], Awaitable[Running]],
    *,
    logging_format: str = "text",
    verbosity: int = 0,
    on_interrupt: Callable[[], None] = lambda: None,
) -> int:
    """Start, wait for Ctrl-C or SIGTERM, close. Returns the exit code. Ctrl-C calls `on_interrupt` before the close."""
    configure_logging(logging_format, verbosity)
    gc.disable()  # nothing that start-up loads is garbage
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_until_signal(start, on_interrupt))
    except (StartupError, StoreError, PkiFileError, KubeconfigError, OSError) as error:
        print(f"kubeloop: {_sentence(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # the second Ctrl-C
        return 130
    return 0


async def _until_signal(start: Callable[[], Awaitable[Running]], on_interrupt: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[int] = loop.create_future()

    def set_signal(number: int) -> None:
        if not stop.done():
            stop.set_result(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, set_signal, number)
    running = await start()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
    collecting = asyncio.create_task(collect_when_idle())
    received = await stop
    collecting.cancel()
    for number in _SIGNALS:
        loop.remove_signal_handler(number)  # from here on a second signal exits immediately
    if received == signal.SIGINT:
        on_interrupt()
    await running.close()


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {(error.strerror or str(error)).lower()}"
    return str(error)
