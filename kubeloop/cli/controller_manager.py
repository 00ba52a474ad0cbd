"""`kubeloop controller-manager`: the loops alone, against any API server, in place of kube-controller-manager."""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import logging
import signal
import socket
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop

from kubeloop import __version__
from kubeloop.apiserver.server import CannotStart
from kubeloop.cli.controller_manager_access import Access
from kubeloop.cli.controller_manager_clients import Clients, server_of
from kubeloop.cli.controller_manager_flags import UnusableConfig, config_of, flag_of
from kubeloop.cli.controller_manager_port import open_port
from kubeloop.cli.controller_manager_telling import Telling
from kubeloop.cli.flags_in_use import refused_flags, unused_flags
from kubeloop.cli.json_log import JsonFormatter
from kubeloop.cli.kubeconfig import server_url
from kubeloop.client.config import ServerConfig
from kubeloop.client.errors import ClientError
from kubeloop.clock import Clock, SystemClock
from kubeloop.controllers import UnusableChoice, select
from kubeloop.controllers.config import ManagerConfig
from kubeloop.controllers.hosting import COMPONENT, Hosted, Surroundings, host
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.fence import LeadershipLost
from kubeloop.runtime.instruments import leader_instruments
from kubeloop.runtime.leader import LeaderElector, Terms, new_identity
from kubeloop.runtime.recorder import EventRecorder

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_DEBUG = 4  # upstream's level of --v
_BLOCKED_SECONDS = 30.0  # one loop that computes for so long has stopped all of them: show where
_SIGN_OF_LIFE = 10.0

log = logging.getLogger(__name__)


def run_controller_manager(options: argparse.Namespace) -> int:
    if options.subcommand == "status":
        from kubeloop.cli.controller_manager_status import run_status

        return run_status(options)
    sys.path.insert(0, "")  # what is loaded may be beside whoever starts this
    try:
        config = config_of(options)
        set_up_logging(config)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_until_end(config, SystemClock()))
    except (CannotStart, UnusableChoice, UnusableConfig, ClientError, OSError) as error:
        print(f"kubeloop: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # the second Ctrl-C
        return 130


class Program:
    """What is made of a configuration: loops, a candidate to lead them, and what is told of both."""

    def __init__(self, config: ManagerConfig, clock: Clock, folder: Path) -> None:
        self.config = config
        self._clock = clock
        self._telemetry = Telemetry()
        server = server_of(config)
        choice = select(config.controllers, config.feature_gates)
        self.clients = Clients(server, config, clock, self._telemetry.registry, folder)
        self.identity = new_identity(socket.gethostname(), clock)
        own = self.clients.own()
        recorder = EventRecorder(own, COMPONENT, clock, host=socket.gethostname())
        self._elector = self._candidate(recorder) if config.leader_elect else None
        root_ca = root_ca_of(config, server)
        around = Surroundings(own, self.clients.for_loop, recorder, clock, config, self._telemetry, root_ca)
        self._hosted: Hosted = host(choice, around)
        registry = self._telemetry.registry
        self.telling = Telling(self._hosted.manager, choice, config, registry, self.identity, self._elector)
        if config.use_service_account_credentials:
            self.telling.add_check("serviceAccountTokens", lambda: self.clients.trouble)

    async def run(self) -> None:
        """Lead when it is our turn, until cancelled. Raises `LeadershipLost` when it no longer is."""
        if self._elector is None:
            await self._lead()
        else:
            await self._elector.run(self._lead)

    async def _lead(self) -> None:
        await self.clients.get_tokens()
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(self.clients.renew_tokens(), name="renewing tokens")
            try:
                await self._hosted.run(self._grace)
            finally:
                renewing.cancel()

    def _grace(self) -> float:
        """How long what waits may take at the end; nobody works who must not write."""
        fence = self.clients.fence
        return self.config.controller_shutdown_timeout if fence is None or fence.is_open else 0.0

    def _candidate(self, recorder: EventRecorder) -> LeaderElector:
        config = self.config
        if config.leader_elect_resource_lock != "leases":
            raise CannotStart('resourceLock value must be "leases"')
        try:
            terms = Terms(
                config.leader_elect_lease_duration, config.leader_elect_renew_deadline, config.leader_elect_retry_period
            )
        except ValueError as error:
            raise CannotStart(str(error)) from None
        name = config.leader_elect_resource_name
        elector = LeaderElector(
            self.clients.for_election(), config.leader_elect_resource_namespace, name, self.identity, self._clock,
            terms=terms, recorder=recorder, instruments=leader_instruments(self._telemetry.registry, name),
        )  # fmt: skip
        self.clients.fence = elector.fence
        return elector


def root_ca_of(config: ManagerConfig, server: ServerConfig) -> str:
    """Who signed the API server's certificate: what the flag says, else what we trust ourselves."""
    if config.root_ca_file:
        return Path(config.root_ca_file).read_text()
    authority = server.authority
    return authority.data.decode() if authority.data or not authority.file else Path(authority.file).read_text()


async def _until_end(config: ManagerConfig, clock: Clock) -> int:
    """Run until a signal comes or the lease is lost; the exit code."""
    if refused := refused_flags(config):
        raise CannotStart(f"{flag_of(refused[0])} is not supported yet")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="kubeloop-")))
        program = Program(config, clock, folder)
        parts.push_async_callback(program.clients.close)
        await _tell(program, clock, parts)
        running = asyncio.create_task(program.run(), name="controller manager")
        living = asyncio.create_task(_live())
        parts.callback(living.cancel)
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)  # from here on a second signal ends the process at once
        return await _end(running)


async def _tell(program: Program, clock: Clock, parts: AsyncExitStack) -> None:
    """Open the port, and say where."""
    config = program.config
    if unused := unused_flags(config):
        log.warning("without effect yet: %s", ", ".join(map(flag_of, unused)))
    where = ""
    if config.secure_port:
        authentication = program.clients.of_kubeconfig(config.authentication_kubeconfig)
        authorization = program.clients.of_kubeconfig(config.authorization_kubeconfig)
        access = Access(authentication, authorization, config, clock)
        port = await open_port(program.telling, access, authentication, config, clock)
        parts.push_async_callback(port.close)
        where = f" at {server_url(config.bind_address, port.port)}"
    print(f"kubeloop controller-manager {__version__} is ready{where}", flush=True)


async def _end(running: asyncio.Task[None]) -> int:
    """End what runs, with time to drain; the exit code."""
    running.cancel()
    await asyncio.wait((running,))
    if running.cancelled():
        return 0
    error = running.exception()
    if isinstance(error, LeadershipLost):
        log.error("leaderelection lost: %s", error)
    elif error is not None:
        log.error("the manager failed", exc_info=error)
    return 1


async def _live() -> None:
    """As long as this gets its turn nothing blocks the process; else the system shows the stack that does."""
    try:
        while True:
            faulthandler.dump_traceback_later(_BLOCKED_SECONDS)
            await asyncio.sleep(_SIGN_OF_LIFE)
    finally:
        faulthandler.cancel_dump_traceback_later()


def set_up_logging(config: ManagerConfig) -> None:
    if config.logging_format not in ("text", "json"):
        raise UnusableConfig(f"--logging-format can be text or json, not {config.logging_format}")
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if config.logging_format == "json" else text)
    logging.basicConfig(handlers=[handler])
    logging.getLogger("kubeloop").setLevel(logging.DEBUG if config.v >= _DEBUG else logging.INFO)
