# SPDX-License-Identifier: Apache-2.0
"""Builds a scheduler from its configuration, with informers and a manager that runs it."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.runtime.app import App, LoopContext
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.informer.informer_metrics import InformerMetrics
from kubeloop.runtime.manager import LoopManager
from kubeloop.scheduler.components import NAME
from kubeloop.scheduler.config.configuration import SchedulerConfig
from kubeloop.scheduler.framework.registry import PluginRegistry
from kubeloop.scheduler.scheduler import Scheduler
from kubeloop.scheduler.status.pod_resources import register_pod_resources


class SchedulerApp(App):
    """Scheduler ready to run; it records its own events."""

    def __init__(self, scheduler: Scheduler, manager: LoopManager, informers: SharedInformerFactory) -> None:
        super().__init__(manager, informers, close=scheduler.close)
        self.scheduler = scheduler


def build_scheduler(
    client: Client,
    clock: Clock,
    telemetry: Telemetry,
    config: SchedulerConfig | None = None,
    registry: PluginRegistry | None = None,
) -> SchedulerApp:
    """Return a scheduler with its own informers."""
    informers = SharedInformerFactory(client, clock, metrics=InformerMetrics(telemetry.registry, "kube-scheduler"))
    scheduler = Scheduler(LoopContext(client, informers, clock, telemetry=telemetry), config, registry)
    register_pod_resources(telemetry.registry, informers.for_resource(resource_of_class(Pod)).list)
    manager = LoopManager([scheduler], clock, name=NAME, registry=telemetry.registry)
    return SchedulerApp(scheduler, manager, informers)
