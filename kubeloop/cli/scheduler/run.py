"""`kubeloop scheduler`: the scheduler against any API server, in place of kube-scheduler."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from kubeloop.apiserver.nonresource.health import Check
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.program.elected import UNUSABLE, ElectedProgram, print_startup_error, run_elected_program
from kubeloop.cli.scheduler.flags import SchedulerOptions, encode_config, options_of
from kubeloop.cli.secure_port.status_pages import StatusPages
from kubeloop.clock import Clock
from kubeloop.controllers import ControllerSelection
from kubeloop.scheduler.app import build_scheduler
from kubeloop.scheduler.config.file import SchedulerConfigError
from kubeloop.scheduler.framework.registry import PluginLoadError
from kubeloop.scheduler.scheduler import NAME

_UNUSABLE = (*UNUSABLE, SchedulerConfigError, PluginLoadError)


def run_scheduler(options: argparse.Namespace) -> int:
    """Run the scheduler; returns the exit code."""
    sys.path.insert(0, "")  # plugins may be in the current folder
    try:
        told = options_of(options)
        if told.refused:
            raise StartupError(f"{told.refused[0]} is not supported")
        if told.write_config_to is not None:
            told.write_config_to.write_bytes(encode_config(told))
            return 0
    except _UNUSABLE as error:
        return print_startup_error(error)
    return run_elected_program(told.process, lambda clock, folder: SchedulerProgram(told, clock, folder), _UNUSABLE)


class SchedulerStatusPages(StatusPages):
    """Status pages, with checks and configuration under the scheduler's own names."""

    def checks(self) -> tuple[Mapping[str, Check], Mapping[str, Check]]:
        """Return the liveness and readiness checks."""

        def healthy() -> str:
            return self._manager.health(NAME).why

        sync = {"sched-handler-sync": healthy, "informer-sync": healthy}
        return self._live, {**self._live, "shutdown": lambda: "", **sync}

    def configz(self) -> Mapping[str, Any]:
        """Return the configuration."""
        return {"kubescheduler.config.k8s.io": msgspec.to_builtins(self._config)}


class SchedulerProgram(ElectedProgram):
    """Scheduler with its status pages."""

    command = "scheduler"

    def __init__(self, options: SchedulerOptions, clock: Clock, folder: Path) -> None:
        super().__init__(options.process, NAME, clock, folder)
        self.without_effect = options.unused
        client = self.clients.for_loop("").with_user_agent(f"{NAME}/scheduler")
        self._hosted = build_scheduler(client, clock, self.telemetry, options.scheduler)
        manager, registry, nothing = self._hosted.manager, self.telemetry.registry, ControllerSelection((), ())
        self.telling = SchedulerStatusPages(manager, nothing, options.process, registry, self.identity, self.elector)

    async def run(self) -> None:
        """Run with an event recorder for elections, since the scheduler's own runs only while it leads."""
        async with asyncio.TaskGroup() as group:
            recording = group.create_task(self.recorder.run())
            try:
                await super().run()
            finally:
                recording.cancel()

    async def lead(self) -> None:
        """Schedule until cancelled."""
        await self._hosted.run(self.grace)
