# SPDX-License-Identifier: Apache-2.0
"""Controllers of `kubeloop up`, in the server's process, without a lease if the store is not shared."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.pki.files import Pki
from kubeloop.cli.secure_port.server import SecurePort
from kubeloop.cli.up.component_port import CurrentStatusPages, open_component_port, port_config
from kubeloop.cli.up.election import ElectedComponent, LocalClients
from kubeloop.clock import Clock
from kubeloop.controllers import InvalidControllers, select
from kubeloop.controllers.app.build import COMPONENT, ControllerDependencies, build_app
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.runtime.app import App
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.events.recorder import EventRecorder

_FIRST_WORK_SECONDS = 5.0
# Workers of each busy controller. They wait for disk flushes, which they share: many cost no more than few.
_WORKERS = 32


@dataclass(frozen=True, slots=True)
class ClusterNetworks:
    """Networks of the cluster; without a network of pods, nodes get no pod CIDRs."""

    pods: str = ""
    services: str = ""


_NO_NETWORKS = ClusterNetworks()


class RunningControllers:
    """Running controllers; created by `start_controllers`."""

    def __init__(self, part: ElectedComponent[App], port: SecurePort | None) -> None:
        self.part = part
        self._port = port

    @property
    def port(self) -> int:
        """Port of health and metrics; 0 if there is none."""
        return self._port.port if self._port is not None else 0

    async def close(self) -> None:
        """Drain the controllers."""
        if self._port is not None:
            await self._port.close()
        await self.part.close()


async def start_controllers(
    server: ApiServer,
    pki: Pki,
    clock: Clock,
    port: int,
    gates: tuple[str, ...] = (),
    networks: ClusterNetworks = _NO_NETWORKS,
) -> RunningControllers:
    """Start the controllers; returns when they have processed the present objects.

    If another control plane leads, it does not wait for that. Raises `StartupError` for networks that do not fit.
    """
    within = LocalClients(server, COMPONENT, clock)
    config, choice, telemetry = config_of(pki, port, gates, networks), select(["*"], gates), Telemetry()
    own, root_ca = within.shared_client(), pki.ca.read_text()

    def make() -> App:
        recorder = EventRecorder(own, COMPONENT, clock)
        return build_app(
            choice, ControllerDependencies(own, within.controller_client, recorder, clock, config, telemetry, root_ca)
        )

    try:
        part = ElectedComponent("loops", make, within.election)
    except InvalidControllers as error:
        raise StartupError(str(error)) from None
    opened: SecurePort | None = None
    if port:
        pages = CurrentStatusPages(part, config, telemetry.registry)
        opened = await open_component_port("controller manager", pages, own, config, clock)
        server.components.set_port("controller-manager", opened.port)
    else:
        server.components.set_check("controller-manager", part.problem)
    if part.election is None or await part.election.wait_elected(_FIRST_WORK_SECONDS):
        await part.app.wait_initial_sync(_FIRST_WORK_SECONDS)
    return RunningControllers(part, opened)


def config_of(
    pki: Pki, port: int, gates: tuple[str, ...] = (), networks: ClusterNetworks = _NO_NETWORKS
) -> ManagerConfig:
    """Return the default configuration, with a port on loopback that trusts the API server's CA."""
    return replace(
        port_config(pki, port),
        feature_gates=gates,
        allocate_node_cidrs=bool(networks.pods),
        cluster_cidr=networks.pods,
        service_cluster_ip_range=networks.services,
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
