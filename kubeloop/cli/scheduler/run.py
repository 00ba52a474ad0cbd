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
from kubeloop.apiserver.server import CannotStart
from kubeloop.cli.program.elected import UNUSABLE, Candidate, refused, run_candidate
from kubeloop.cli.scheduler.flags import Options, options_of, written
from kubeloop.cli.secure_port.status_pages import Telling
from kubeloop.clock import Clock
from kubeloop.controllers import Choice
from kubeloop.scheduler.app import host
from kubeloop.scheduler.config.file import UnusableConfig
from kubeloop.scheduler.framework.registry import UnusablePlugin
from kubeloop.scheduler.scheduler import NAME

_UNUSABLE = (*UNUSABLE, UnusableConfig, UnusablePlugin)


def run_scheduler(options: argparse.Namespace) -> int:
    """Run the scheduler; returns the exit code."""
    sys.path.insert(0, "")  # plugins may be in the current folder
    try:
        told = options_of(options)
        if told.refused:
            raise CannotStart(f"{told.refused[0]} is not supported")
        if told.write_config_to is not None:
            told.write_config_to.write_bytes(written(told))
            return 0
    except _UNUSABLE as error:
        return refused(error)
    return run_candidate(told.process, lambda clock, folder: SchedulerProgram(told, clock, folder), _UNUSABLE)


class SchedulerTelling(Telling):
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


class SchedulerProgram(Candidate):
    """Scheduler with its status pages."""

    command = "scheduler"

    def __init__(self, options: Options, clock: Clock, folder: Path) -> None:
        super().__init__(options.process, NAME, clock, folder)
        self.without_effect = options.unused
        client = self.clients.for_loop("").with_user_agent(f"{NAME}/scheduler")
        self._hosted = host(client, clock, self.telemetry, options.scheduler)
        manager, registry, nothing = self._hosted.manager, self.telemetry.registry, Choice((), ())
        self.telling = SchedulerTelling(manager, nothing, options.process, registry, self.identity, self.elector)

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
