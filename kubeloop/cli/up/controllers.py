"""Controllers of `kubeloop up`, in the server's process, without a lease if the store is not shared."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.nonresource.health import Check
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.pki.files import Pki
from kubeloop.cli.secure_port.authz import DelegatedAuthorizer
from kubeloop.cli.secure_port.server import ManagerStatus, SecurePort, open_port
from kubeloop.cli.secure_port.status_pages import StatusPages
from kubeloop.cli.up.election import ElectedComponent, LocalClients
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers import ControllerSelection, select
from kubeloop.controllers.app.build import COMPONENT, ControllerDependencies, ControllerManagerApp, build_app
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.metrics import MetricRegistry

_FIRST_WORK_SECONDS = 5.0
# Workers of each busy loop. What they wait for is the disk, whose flushes they share: many cost no more than few.
_WORKERS = 32

log = logging.getLogger(__name__)


class RunningControllers:
    """Running controllers; created by `start_controllers`."""

    def __init__(self, part: ElectedComponent[ControllerManagerApp], port: SecurePort | None) -> None:
        self.part = part
        self._port = port

    async def close(self) -> None:
        """Drain the controllers."""
        if self._port is not None:
            await self._port.close()
        await self.part.close()


class CurrentStatusPages:
    """Status pages of the current controllers, which change with each election."""

    def __init__(
        self,
        part: ElectedComponent[ControllerManagerApp],
        choice: ControllerSelection,
        config: ManagerConfig,
        registry: MetricRegistry,
    ) -> None:
        self._part = part
        self._choice = choice
        self._config = config
        self._registry = registry

    def checks(self) -> tuple[Mapping[str, Check], Mapping[str, Check]]:
        """Return the current liveness and readiness checks."""
        return self._telling().checks()

    def metrics(self) -> str:
        """Return the current metrics."""
        return self._telling().metrics()

    def configz(self) -> Mapping[str, Any]:
        """Return the current configuration."""
        return self._telling().configz()

    def status(self) -> ManagerStatus:
        """Return the current status."""
        return self._telling().status()

    def _telling(self) -> StatusPages:
        manager, standing = self._part.hosted.manager, self._part.standing
        identity, elector = ("kubeloop up", None) if standing is None else (standing.identity, standing.elector)
        return StatusPages(manager, self._choice, self._config, self._registry, identity, elector)


async def start_controllers(
    server: ApiServer, pki: Pki, clock: Clock, port: int, gates: tuple[str, ...] = ()
) -> RunningControllers:
    """Start the controllers; returns when they have processed the present objects.

    If another control plane leads, it does not wait for that.
    """
    within = LocalClients(server, COMPONENT, clock)
    config, choice, telemetry = config_of(pki, port, gates), select(["*"], gates), Telemetry()
    own, root_ca = within.own(), pki.ca.read_text()

    def make() -> ControllerManagerApp:
        recorder = EventRecorder(own, COMPONENT, clock)
        return build_app(
            choice, ControllerDependencies(own, within.for_loop, recorder, clock, config, telemetry, root_ca)
        )

    part = ElectedComponent("loops", make, within.standing)
    opened = (
        await _open(CurrentStatusPages(part, choice, config, telemetry.registry), own, config, clock) if port else None
    )
    if part.standing is None or await part.standing.leads(_FIRST_WORK_SECONDS):
        await part.hosted.first_work_done(_FIRST_WORK_SECONDS)
    return RunningControllers(part, opened)


def config_of(pki: Pki, port: int, gates: tuple[str, ...] = ()) -> ManagerConfig:
    """Return the default configuration, with a port on loopback that trusts the API server's CA."""
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


async def _open(telling: CurrentStatusPages, client: Client, config: ManagerConfig, clock: Clock) -> SecurePort | None:
    try:
        return await open_port(telling, DelegatedAuthorizer(client, client, config, clock), client, config, clock)
    except StartupError as error:  # another control plane runs on this machine; the port is optional
        log.info("the loops' status cannot be asked for: %s", error)
        return None
