# SPDX-License-Identifier: Apache-2.0
"""`kubeloop scheduler`: the scheduler against any API server, in place of kube-scheduler."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from kubeloop.api.features.effects import SCHEDULER
from kubeloop.cli.flags.runtime_config import warn_ineffective_gates
from kubeloop.cli.program.elected_program import (
    UNUSABLE,
    ElectedProgram,
    print_startup_error,
    run_elected_program,
)
from kubeloop.cli.scheduler.flags import SchedulerOptions, encode_config, options_of
from kubeloop.cli.scheduler.status_pages import SchedulerStatusPages
from kubeloop.clock import Clock
from kubeloop.scheduler.app import build_scheduler
from kubeloop.scheduler.components import NAME
from kubeloop.scheduler.config.file import SchedulerConfigError
from kubeloop.scheduler.framework.registry import PluginLoadError

_UNUSABLE = (*UNUSABLE, SchedulerConfigError, PluginLoadError)


def run_scheduler(options: argparse.Namespace) -> int:
    """Run the scheduler; returns the exit code."""
    sys.path.insert(0, "")  # plugins may be in the current folder
    try:
        told = options_of(options)
        if told.write_config_to is not None:
            told.write_config_to.write_bytes(encode_config(told))
            return 0
    except _UNUSABLE as error:
        return print_startup_error(error)
    return run_elected_program(told.process, lambda clock, folder: SchedulerProgram(told, clock, folder), _UNUSABLE)


class SchedulerProgram(ElectedProgram):
    """Scheduler with its status pages."""

    command = "scheduler"

    def __init__(self, options: SchedulerOptions, clock: Clock, folder: Path) -> None:
        super().__init__(options.process, NAME, clock, folder)
        warn_ineffective_gates(options.process.feature_gates, SCHEDULER)
        self.without_effect = options.unused
        client = self.clients.controller_client("").with_user_agent(f"{NAME}/scheduler")
        self._hosted = build_scheduler(client, clock, self.telemetry, options.scheduler)
        manager, registry = self._hosted.manager, self.telemetry.registry
        self.status_pages = SchedulerStatusPages(manager, options.process, registry, self.identity, self.elector)

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
        await self._hosted.run(self.drain_seconds)
