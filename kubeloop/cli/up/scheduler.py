# SPDX-License-Identifier: Apache-2.0
"""Scheduler of `kubeloop up`, in the server's process, without a lease if the store is not shared."""

from __future__ import annotations

from kubeloop.api.features.gates import parse_feature_gates
from kubeloop.apiserver.app import ApiServer
from kubeloop.cli.pki.files import Pki
from kubeloop.cli.scheduler.status_pages import SchedulerStatusPages
from kubeloop.cli.secure_port.server import SecurePort
from kubeloop.cli.up.component_port import CurrentStatusPages, open_component_port, port_config
from kubeloop.cli.up.election import ElectedComponent, LocalClients
from kubeloop.clock import Clock
from kubeloop.runtime.controller import Telemetry
from kubeloop.scheduler.app import SchedulerApp, build_scheduler
from kubeloop.scheduler.components import NAME
from kubeloop.scheduler.config.configuration import default_config


class RunningScheduler:
    """Running scheduler; created by `start_scheduler`."""

    def __init__(self, component: ElectedComponent[SchedulerApp], port: SecurePort | None) -> None:
        self.component = component
        self._port = port

    @property
    def port(self) -> int:
        """Port of health and metrics; 0 if there is none."""
        return self._port.port if self._port is not None else 0

    async def close(self) -> None:
        """Stop the scheduler."""
        if self._port is not None:
            await self._port.close()
        await self.component.close()


async def start_scheduler(
    server: ApiServer, pki: Pki, clock: Clock, port: int, gates: tuple[str, ...] = ()
) -> RunningScheduler:
    """Start the scheduler; it schedules when elected and synced. Port 0: it has none."""
    within, telemetry = LocalClients(server, NAME, clock), Telemetry()
    scheduler_config = default_config(parse_feature_gates(gates))
    component = ElectedComponent(
        "scheduler",
        lambda: build_scheduler(within.controller_client(""), clock, telemetry, scheduler_config),
        within.election,
    )
    if not port:
        server.components.set_check("scheduler", component.problem)
        return RunningScheduler(component, None)
    config = port_config(pki, port)
    pages = CurrentStatusPages(component, config, telemetry.registry, SchedulerStatusPages)
    opened = await open_component_port("scheduler", pages, within.shared_client(), config, clock)
    server.components.set_port("scheduler", opened.port)
    return RunningScheduler(component, opened)
