# SPDX-License-Identifier: Apache-2.0
"""`kubeloop cloud-controller-manager`: the cloud controllers against any API server."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from kubeloop.cli.cloud_controller_manager.flags import CloudControllerManagerOptions, options_of
from kubeloop.cli.program.elected_program import (
    UNUSABLE,
    ElectedProgram,
    print_startup_error,
    run_elected_program,
)
from kubeloop.cli.secure_port.status_pages import StatusPages
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.cloud import InvalidCloudControllers, select
from kubeloop.cloud.app import COMPONENT, build_app
from kubeloop.cloud.context import CloudControllerContext
from kubeloop.cloud.provider_registry import InvalidProvider, ProviderDependencies, load
from kubeloop.cloud.route_plan import InvalidClusterCidr
from kubeloop.runtime.informer.informer import SharedInformerFactory

_UNUSABLE = (*UNUSABLE, InvalidCloudControllers, InvalidProvider, InvalidClusterCidr)


def run_cloud_controller_manager(options: argparse.Namespace) -> int:
    """Run the manager; returns the exit code."""
    sys.path.insert(0, "")  # providers may be in the current folder
    try:
        told = options_of(options)
    except _UNUSABLE as error:
        return print_startup_error(error)
    return run_elected_program(
        told.process, lambda clock, folder: CloudControllerManagerProgram(told, clock, folder), _UNUSABLE
    )


class CloudStatusPages(StatusPages):
    """Status pages, with the configuration under this manager's name."""

    component = COMPONENT

    def configz(self) -> Mapping[str, Any]:
        """Return the configuration."""
        return {"cloudcontrollermanager.config.k8s.io": msgspec.to_builtins(self._config)}


class CloudControllerManagerProgram(ElectedProgram):
    """Cloud controllers of a provider with their status pages."""

    command = "cloud-controller-manager"

    def __init__(self, options: CloudControllerManagerOptions, clock: Clock, folder: Path) -> None:
        process = options.process
        super().__init__(process, COMPONENT, clock, folder)
        informers = SharedInformerFactory(self.own, clock)
        provider = load(process.cloud_provider, ProviderDependencies(self.own, informers, clock, process.cloud_config))
        context = CloudControllerContext(
            self.own, informers, clock, self.recorder, provider, options.cloud, telemetry=self.telemetry
        )
        self._hosted = build_app(select(process.controllers), context, self._client_of)
        manager, registry = self._hosted.manager, self.telemetry.registry
        self.status_pages = CloudStatusPages(manager, process, registry, self.identity, self.elector)

    async def lead(self) -> None:
        """Run the controllers until cancelled."""
        await self.with_tokens(lambda: self._hosted.run(self.drain_seconds))

    def _client_of(self, account: str) -> Client:
        return self.clients.controller_client(account).with_user_agent(f"{COMPONENT}/{account}")
