"""Scheduler of `kubeloop up`, in the server's process, without a lease if the store is not shared."""

from __future__ import annotations

from kubeloop.apiserver.app import ApiServer
from kubeloop.cli.up.election import ElectedComponent, LocalClients
from kubeloop.clock import Clock
from kubeloop.runtime.controller import Telemetry
from kubeloop.scheduler.app import SchedulerApp, build_scheduler
from kubeloop.scheduler.scheduler import NAME


def start_scheduler(server: ApiServer, clock: Clock) -> ElectedComponent[SchedulerApp]:
    """Start the scheduler; returns at once: it schedules when elected and synced."""
    within = LocalClients(server, NAME, clock)
    return ElectedComponent(
        "scheduler", lambda: build_scheduler(within.for_loop(""), clock, Telemetry()), within.standing
    )
