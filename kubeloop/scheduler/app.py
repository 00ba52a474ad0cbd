"""Builds a scheduler from its configuration, with informers and a manager that runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.manager import LoopManager
from kubeloop.scheduler.config.configuration import SchedulerConfig
from kubeloop.scheduler.framework.registry import PluginRegistry
from kubeloop.scheduler.scheduler import NAME, Scheduler


@dataclass(frozen=True, slots=True)
class SchedulerDependencies:
    """Dependencies of a scheduler."""

    client: Client
    informers: SharedInformerFactory
    clock: Clock
    telemetry: Telemetry


class SchedulerApp:
    """Scheduler ready to run; made by `host`."""

    def __init__(self, scheduler: Scheduler, manager: LoopManager, informers: SharedInformerFactory) -> None:
        self.scheduler = scheduler
        self.manager = manager
        self._informers = informers

    async def run(self, grace: Callable[[], float]) -> None:
        """Fill the caches and schedule until cancelled; then finish the bindings under way."""
        self._informers.start()
        try:
            await self.manager.run(grace)
        finally:
            await self._informers.stop()
            await self.scheduler.extenders.close()


def build_scheduler(
    client: Client,
    clock: Clock,
    telemetry: Telemetry,
    config: SchedulerConfig | None = None,
    registry: PluginRegistry | None = None,
) -> SchedulerApp:
    """Return a scheduler with its own informers."""
    informers = SharedInformerFactory(client, clock)
    scheduler = Scheduler(SchedulerDependencies(client, informers, clock, telemetry), config, registry)
    manager = LoopManager([scheduler], clock, name=NAME, registry=telemetry.registry)
    return SchedulerApp(scheduler, manager, informers)
