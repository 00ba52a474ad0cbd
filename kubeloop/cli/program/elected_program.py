# SPDX-License-Identifier: Apache-2.0
"""Base of programs with leader election: the managers and the scheduler."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import signal
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop

from kubeloop import __version__
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.controller_manager.flags import ManagerConfigError
from kubeloop.cli.pki.kubeconfig import server_url
from kubeloop.cli.program.foreground import GC_THRESHOLDS
from kubeloop.cli.program.logs import FORMATS, configure_logging
from kubeloop.cli.secure_port.authz import DelegatedAuthorizer
from kubeloop.cli.secure_port.clients import ControllerClients, server_of
from kubeloop.cli.secure_port.server import open_port
from kubeloop.cli.secure_port.status_pages import StatusPages
from kubeloop.client.errors import ClientError
from kubeloop.clock import Clock, SystemClock
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.leaderelection.fence import LeadershipLost
from kubeloop.runtime.leaderelection.leader_elector import LeaderElector, LeaseDurations, new_identity
from kubeloop.runtime.standard_metrics import register_leader_election_metrics

UNUSABLE = (StartupError, ManagerConfigError, ClientError, OSError)
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_BLOCKED_SECONDS = 30.0  # a computation of this length blocks the event loop: show the stacks
_WATCHDOG_PERIOD = 10.0

log = logging.getLogger(__name__)


class ElectedProgram:
    """Program with clients and leader election. Subclasses implement `lead`."""

    command: str  # of ours
    status_pages: StatusPages
    without_effect: Sequence[str] = ()  # flags that were given

    def __init__(self, config: ManagerConfig, component: str, clock: Clock, folder: Path) -> None:
        self.config = config
        self.clock = clock
        self.telemetry = Telemetry()
        self.clients = ControllerClients(server_of(config), config, clock, self.telemetry.registry, folder)
        self.own = self.clients.shared_client().with_user_agent(component)
        self.identity = new_identity(socket.gethostname(), clock)
        self.recorder = EventRecorder(self.own, component, clock, host=socket.gethostname())
        self.elector = self._build_elector() if config.leader_elect else None

    async def lead(self) -> None:
        """Do the leader's work until cancelled."""
        raise NotImplementedError

    async def run(self) -> None:
        """Lead when elected, until cancelled. Raises `LeadershipLost` when leadership ends."""
        if self.elector is None:
            await self.lead()
        else:
            await self.elector.run(self.lead)

    async def with_tokens(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run with the controllers' service account tokens, if configured."""
        await self.clients.get_tokens()
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(self.clients.renew_tokens(), name="token renewal")
            try:
                await work()
            finally:
                renewing.cancel()

    def drain_seconds(self) -> float:
        """Return the seconds to drain at the end; 0 without leadership, since writes are then forbidden."""
        fence = self.clients.fence
        return self.config.controller_shutdown_timeout if fence is None or fence.is_open else 0.0

    def _build_elector(self) -> LeaderElector:
        config = self.config
        if config.leader_elect_resource_lock != "leases":
            raise StartupError('resourceLock value must be "leases"')
        try:
            terms = LeaseDurations(
                config.leader_elect_lease_duration, config.leader_elect_renew_deadline, config.leader_elect_retry_period
            )
        except ValueError as error:
            raise StartupError(str(error)) from None
        name = config.leader_elect_resource_name
        elector = LeaderElector(
            self.clients.election_client(),
            config.leader_elect_resource_namespace,
            name,
            self.identity,
            self.clock,
            terms=terms,
            recorder=self.recorder,
            instruments=register_leader_election_metrics(self.telemetry.registry, name),
        )
        self.clients.fence = elector.fence
        return elector


def run_elected_program(
    config: ManagerConfig,
    make: Callable[[Clock, Path], ElectedProgram],
    unusable: tuple[type[Exception], ...] = UNUSABLE,
) -> int:
    """Run a program until a signal comes or leadership is lost; returns the exit code."""
    try:
        set_up_logging(config)
        gc.set_threshold(*GC_THRESHOLDS)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_until_end(make, SystemClock()))
    except unusable as error:
        return print_startup_error(error)
    except KeyboardInterrupt:  # the second Ctrl-C
        return 130


def print_startup_error(error: Exception) -> int:
    """Print in one line why the program cannot run; returns the exit code."""
    print(f"kubeloop: {error}", file=sys.stderr)
    return 1


async def _until_end(make: Callable[[Clock, Path], ElectedProgram], clock: Clock) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="kubeloop-")))
        program = make(clock, folder)
        parts.push_async_callback(program.clients.close)
        await _open_secure_port(program, parts)
        running = asyncio.create_task(program.run(), name=program.command)
        living = asyncio.create_task(_watchdog())
        parts.callback(living.cancel)
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)  # from here on a second signal exits immediately
        return await _end(running, program.command)


async def _open_secure_port(program: ElectedProgram, parts: AsyncExitStack) -> None:
    """Open the secure port and log its address."""
    config, where = program.config, ""
    if program.without_effect:
        log.warning("flags without effect: %s", ", ".join(program.without_effect))
    if config.secure_port:
        authentication = program.clients.kubeconfig_client(config.authentication_kubeconfig)
        authorization = program.clients.kubeconfig_client(config.authorization_kubeconfig)
        access = DelegatedAuthorizer(authentication, authorization, config, program.clock)
        port = await open_port(program.status_pages, access, authentication, config, program.clock)
        parts.push_async_callback(port.close)
        where = f" at {server_url(config.bind_address, port.port)}"
    print(f"kubeloop {program.command} {__version__} is ready{where}", flush=True)


async def _end(running: asyncio.Task[None], command: str) -> int:
    """Cancel the work, with time to drain; returns the exit code."""
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
        log.error("the %s failed", command, exc_info=error)
    return 1


async def _watchdog() -> None:
    """Watchdog: dumps the stacks if the event loop is blocked."""
    try:
        while True:
            faulthandler.dump_traceback_later(_BLOCKED_SECONDS)
            await asyncio.sleep(_WATCHDOG_PERIOD)
    finally:
        faulthandler.cancel_dump_traceback_later()


def set_up_logging(config: ManagerConfig) -> None:
    """Configure logging from the flags."""
    if config.logging_format not in FORMATS:
        raise ManagerConfigError(f"--logging-format must be text or json, not {config.logging_format}")
    configure_logging(config.logging_format, config.v, level=logging.INFO)
