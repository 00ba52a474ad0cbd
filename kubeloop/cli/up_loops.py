"""The loops of `kubeloop up`: in the server's own process, without a lease, because nobody else can run them."""

from __future__ import annotations

import asyncio
import logging

from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.context import AUTHENTICATED, User
from kubeloop.apiserver.entry import LocalEntry
from kubeloop.apiserver.server import CannotStart
from kubeloop.cli.controller_manager_access import Access
from kubeloop.cli.controller_manager_port import Port, open_port
from kubeloop.cli.controller_manager_telling import Telling
from kubeloop.cli.pki import Pki
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers import select
from kubeloop.controllers.config import ManagerConfig
from kubeloop.controllers.hosting import COMPONENT, Surroundings, host
from kubeloop.runtime.caused_transport import CausedTransport
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.recorder import EventRecorder

# The roles that give each account its rights are made while loops already work; in one process they guard nothing.
_GROUPS = ("system:masters", AUTHENTICATED)
_FIRST_WORK_SECONDS = 5.0
_DRAIN_SECONDS = 3.0
# Workers of each busy loop. What they wait for is the disk, whose flushes they share: many cost no more than few.
_WORKERS = 32

log = logging.getLogger(__name__)


class Loops:
    """Running loops; made by `start_loops`."""

    def __init__(self, running: asyncio.Task[None], port: Port | None) -> None:
        self._running = running
        self._port = port

    async def close(self) -> None:
        """Let them finish what they have begun."""
        if self._port is not None:
            await self._port.close()
        self._running.cancel()
        await asyncio.wait((self._running,))


async def start_loops(server: ApiServer, pki: Pki, clock: Clock, port: int, gates: tuple[str, ...] = ()) -> Loops:
    """Returns when the loops have seen to everything that was there, such as the accounts that pods need."""

    def client(account: str) -> Client:
        name = f"system:serviceaccount:kube-system:{account}" if account else f"system:{COMPONENT}"
        transport = CausedTransport(LocalEntry(server, User(name, _GROUPS)))
        return Client(transport, user_agent=f"{COMPONENT}/{account}" if account else COMPONENT)

    config, choice, telemetry = config_of(pki, port, gates), select(["*"], gates), Telemetry()
    own = client("")
    recorder = EventRecorder(own, COMPONENT, clock)
    hosted = host(choice, Surroundings(own, client, recorder, clock, config, telemetry, pki.ca.read_text()))
    running = asyncio.create_task(hosted.run(lambda: _DRAIN_SECONDS), name="loops")
    telling = Telling(hosted.manager, choice, config, telemetry.registry, "kubeloop up")
    opened = await _open(telling, own, config, clock) if port else None
    await hosted.first_work_done(_FIRST_WORK_SECONDS)
    return Loops(running, opened)


def config_of(pki: Pki, port: int, gates: tuple[str, ...] = ()) -> ManagerConfig:
    """The defaults, and a port that knows whom the API server knows; for this machine alone."""
    return ManagerConfig(
        leader_elect=False,
        feature_gates=gates,
        bind_address="127.0.0.1",
        secure_port=port,
        tls_cert_file=str(pki.serving_certificate),
        tls_private_key_file=str(pki.serving_key),
        client_ca_file=str(pki.ca),
        service_account_private_key_file=str(pki.account_key),
        cluster_signing_cert_file=str(pki.ca),
        cluster_signing_key_file=str(pki.folder / "ca.key"),
        concurrent_deployment_syncs=_WORKERS,
        concurrent_replicaset_syncs=_WORKERS,
        concurrent_statefulset_syncs=_WORKERS,
        concurrent_daemonset_syncs=_WORKERS,
        concurrent_job_syncs=_WORKERS,
        concurrent_gc_syncs=_WORKERS,
        concurrent_service_endpoint_syncs=_WORKERS,
        concurrent_endpoint_syncs=_WORKERS,
    )


async def _open(telling: Telling, client: Client, config: ManagerConfig, clock: Clock) -> Port | None:
    try:
        return await open_port(telling, Access(client, client, config, clock), client, config, clock)
    except CannotStart as error:  # another plane runs on this machine, and nobody's work depends on this port
        log.info("the loops' status cannot be asked for: %s", error)
        return None
