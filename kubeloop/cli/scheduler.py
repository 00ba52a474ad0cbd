"""`kubeloop scheduler`: the scheduler alone, against any API server, in place of kube-scheduler."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from kubeloop import __version__
from kubeloop.apiserver.health import Check
from kubeloop.apiserver.server import CannotStart
from kubeloop.cli.controller_manager import set_up_logging
from kubeloop.cli.controller_manager_access import Access
from kubeloop.cli.controller_manager_clients import Clients, server_of
from kubeloop.cli.controller_manager_port import open_port
from kubeloop.cli.controller_manager_telling import Telling
from kubeloop.cli.foreground import COLLECTION
from kubeloop.cli.kubeconfig import server_url
from kubeloop.cli.scheduler_flags import Options, options_of, written
from kubeloop.client.errors import ClientError
from kubeloop.clock import Clock, SystemClock
from kubeloop.controllers import Choice
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.fence import LeadershipLost
from kubeloop.runtime.instruments import leader_instruments
from kubeloop.runtime.leader import LeaderElector, Terms, new_identity
from kubeloop.runtime.recorder import EventRecorder
from kubeloop.scheduler.config_file import UnusableConfig
from kubeloop.scheduler.hosting import host
from kubeloop.scheduler.registry import UnusablePlugin
from kubeloop.scheduler.scheduler import NAME

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_DRAIN_SECONDS = 10.0

log = logging.getLogger(__name__)


def run_scheduler(options: argparse.Namespace) -> int:
    sys.path.insert(0, "")  # a plugin of one's own may be beside whoever starts this
    try:
        told = options_of(options)
        if told.refused:
            raise CannotStart(f"{told.refused[0]} is not supported")
        if told.write_config_to is not None:
            told.write_config_to.write_bytes(written(told))
            return 0
        set_up_logging(told.process)
        gc.set_threshold(*COLLECTION)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_until_end(told, SystemClock()))
    except (CannotStart, UnusableConfig, UnusablePlugin, ClientError, OSError) as error:
        print(f"kubeloop: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # the second Ctrl-C
        return 130


class SchedulerTelling(Telling):
    """What the port shows; checks and configuration under the scheduler's own names."""

    def checks(self) -> tuple[Mapping[str, Check], Mapping[str, Check]]:
        def healthy() -> str:
            return self._manager.health(NAME).why

        sync = {"sched-handler-sync": healthy, "informer-sync": healthy}
        return self._live, {**self._live, "shutdown": lambda: "", **sync}

    def configz(self) -> Mapping[str, Any]:
        return {"kubescheduler.config.k8s.io": msgspec.to_builtins(self._config)}


class Program:
    """What is made of the options: a scheduler, a candidate to lead, and what is told of both."""

    def __init__(self, options: Options, clock: Clock, folder: Path) -> None:
        process = self.process = options.process
        self.unused = options.unused
        self._clock = clock
        telemetry = Telemetry()
        self.clients = Clients(server_of(process), process, clock, telemetry.registry, folder)
        self.identity = new_identity(socket.gethostname(), clock)
        self._recorder = EventRecorder(self.clients.own(), NAME, clock, host=socket.gethostname())
        self._elector = self._candidate(telemetry) if process.leader_elect else None
        client = self.clients.for_loop("").with_user_agent(f"{NAME}/scheduler")
        self._hosted = host(client, clock, telemetry, options.scheduler)
        nothing = Choice((), ())
        self.telling = SchedulerTelling(
            self._hosted.manager, nothing, process, telemetry.registry, self.identity, self._elector
        )

    async def run(self) -> None:
        """Lead when it is our turn, until cancelled. Raises `LeadershipLost` when it no longer is."""
        async with asyncio.TaskGroup() as group:
            recording = group.create_task(self._recorder.run())
            try:
                if self._elector is None:
                    await self._hosted.run(self._grace)
                else:
                    await self._elector.run(lambda: self._hosted.run(self._grace))
            finally:
                recording.cancel()

    def _grace(self) -> float:
        fence = self.clients.fence
        return _DRAIN_SECONDS if fence is None or fence.is_open else 0.0

    def _candidate(self, telemetry: Telemetry) -> LeaderElector:
        told = self.process
        if told.leader_elect_resource_lock != "leases":
            raise CannotStart('resourceLock value must be "leases"')
        try:
            terms = Terms(
                told.leader_elect_lease_duration, told.leader_elect_renew_deadline, told.leader_elect_retry_period
            )
        except ValueError as error:
            raise CannotStart(str(error)) from None
        name = told.leader_elect_resource_name
        elector = LeaderElector(
            self.clients.for_election(), told.leader_elect_resource_namespace, name, self.identity, self._clock,
            terms=terms, recorder=self._recorder, instruments=leader_instruments(telemetry.registry, name),
        )  # fmt: skip
        self.clients.fence = elector.fence
        return elector


async def _until_end(options: Options, clock: Clock) -> int:
    """Run until a signal comes or leadership is lost; the exit code."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="kubeloop-")))
        program = Program(options, clock, folder)
        parts.push_async_callback(program.clients.close)
        await _open(program, clock, parts)
        running = asyncio.create_task(program.run(), name="scheduler")
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)  # from here on a second signal ends the process at once
        return await _end(running)


async def _open(program: Program, clock: Clock, parts: AsyncExitStack) -> None:
    told, where = program.process, ""
    if program.unused:
        log.warning("without effect: %s", ", ".join(program.unused))
    if told.secure_port:
        authentication = program.clients.of_kubeconfig(told.authentication_kubeconfig)
        authorization = program.clients.of_kubeconfig(told.authorization_kubeconfig)
        access = Access(authentication, authorization, told, clock)
        port = await open_port(program.telling, access, authentication, told, clock)
        parts.push_async_callback(port.close)
        where = f" at {server_url(told.bind_address, port.port)}"
    print(f"kubeloop scheduler {__version__} is ready{where}", flush=True)


async def _end(running: asyncio.Task[None]) -> int:
    running.cancel()
    await asyncio.wait((running,))
    if running.cancelled():
        return 0
    error = running.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, LeadershipLost):
        log.error("leaderelection lost: %s", error)
    elif error is not None:
        log.error("the scheduler failed", exc_info=error)
    return 1
