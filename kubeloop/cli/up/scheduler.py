"""Scheduler of `kubeloop up`, in the server's process, without a lease if the store is not shared."""

from __future__ import annotations

from kubeloop.apiserver.app import ApiServer
from kubeloop.cli.up.election import Part, Within
from kubeloop.clock import Clock
from kubeloop.runtime.controller import Telemetry
from kubeloop.scheduler.app import Hosted, host
from kubeloop.scheduler.scheduler import NAME


def start_scheduler(server: ApiServer, clock: Clock) -> Part[Hosted]:
    """Start the scheduler; returns at once: it schedules when elected and synced."""
    within = Within(server, NAME, clock)
    return Part("scheduler", lambda: host(within.for_loop(""), clock, Telemetry()), within.standing)
