# SPDX-License-Identifier: Apache-2.0
"""`kubeloop controller-manager`: the controllers against any API server, in place of kube-controller-manager."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kubeloop.api.features.effects import CONTROLLER_MANAGER
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.controller_manager.effective_flags import REFUSED, refused_flags, unused_flags
from kubeloop.cli.controller_manager.flags import config_of, flag_of
from kubeloop.cli.flags.runtime_config import warn_ineffective_gates
from kubeloop.cli.program.elected_program import (
    UNUSABLE,
    ElectedProgram,
    print_startup_error,
    run_elected_program,
)
from kubeloop.cli.secure_port.clients import server_of
from kubeloop.cli.secure_port.status_pages import StatusPages
from kubeloop.client.config.server_config import ServerConfig
from kubeloop.clock import Clock
from kubeloop.controllers import InvalidControllers, select
from kubeloop.controllers.app.build import COMPONENT, ControllerDependencies, build_app
from kubeloop.controllers.app.config import ManagerConfig

_UNUSABLE = (*UNUSABLE, InvalidControllers)


def run_controller_manager(options: argparse.Namespace) -> int:
    """Run the manager or its `status` command; returns the exit code."""
    if options.subcommand == "status":
        from kubeloop.cli.controller_manager.status import run_status

        return run_status(options)
    sys.path.insert(0, "")  # loaded modules may be in the current folder
    try:
        config = config_of(options)
        if flags := refused_flags(config):
            raise StartupError(f"{flag_of(flags[0])} is not supported: {REFUSED[flags[0]]}")
    except _UNUSABLE as error:
        return print_startup_error(error)
    return run_elected_program(config, lambda clock, folder: ControllerManagerProgram(config, clock, folder), _UNUSABLE)


class ControllerManagerProgram(ElectedProgram):
    """Controllers with their status pages."""

    command = "controller-manager"

    def __init__(self, config: ManagerConfig, clock: Clock, folder: Path) -> None:
        choice = select(config.controllers, config.feature_gates)
        super().__init__(config, COMPONENT, clock, folder)
        warn_ineffective_gates(config.feature_gates, CONTROLLER_MANAGER)
        self.without_effect = [flag_of(flag) for flag in unused_flags(config)]
        root_ca = root_ca_of(config, server_of(config))
        loops = self.clients.controller_client
        around = ControllerDependencies(self.own, loops, self.recorder, clock, config, self.telemetry, root_ca)
        self._hosted = build_app(choice, around)
        manager, registry = self._hosted.manager, self.telemetry.registry
        self.status_pages = StatusPages(manager, config, registry, self.identity, self.elector)
        if config.use_service_account_credentials:
            self.status_pages.add_check("serviceAccountTokens", lambda: self.clients.token_error)

    async def lead(self) -> None:
        """Run the controllers until cancelled."""
        await self.with_tokens(lambda: self._hosted.run(self.drain_seconds))


def root_ca_of(config: ManagerConfig, server: ServerConfig) -> str:
    """Return the API server's CA: from the flag, else from the client configuration."""
    if config.root_ca_file:
        return Path(config.root_ca_file).read_text()
    authority = server.authority
    return authority.data.decode() if authority.data or not authority.file else Path(authority.file).read_text()
