"""`kubeloop cloud-controller-manager`: the cloud controllers against any API server."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from kubeloop.cli.cloud_controller_manager.flags import Options, options_of
from kubeloop.cli.program.elected import UNUSABLE, Candidate, refused, run_candidate
from kubeloop.cli.secure_port.status_pages import Telling
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.cloud import UnusableChoice, select
from kubeloop.cloud.app import COMPONENT, host
from kubeloop.cloud.context import Context
from kubeloop.cloud.provider_registry import Surroundings, UnusableProvider, load
from kubeloop.cloud.route_plan import UnusableNetworks
from kubeloop.controllers import Choice
from kubeloop.runtime.informer.informer import Informers

_UNUSABLE = (*UNUSABLE, UnusableChoice, UnusableProvider, UnusableNetworks)


def run_cloud_controller_manager(options: argparse.Namespace) -> int:
    """Run the manager; returns the exit code."""
    sys.path.insert(0, "")  # providers may be in the current folder
    try:
        told = options_of(options)
    except _UNUSABLE as error:
        return refused(error)
    return run_candidate(told.process, lambda clock, folder: CloudManager(told, clock, folder), _UNUSABLE)


class CloudTelling(Telling):
    """Status pages, with the configuration under this manager's name."""

    def configz(self) -> Mapping[str, Any]:
        """Return the configuration."""
        return {"cloudcontrollermanager.config.k8s.io": msgspec.to_builtins(self._config)}


class CloudManager(Candidate):
    """Cloud controllers of a provider with their status pages."""

    command = "cloud-controller-manager"

    def __init__(self, options: Options, clock: Clock, folder: Path) -> None:
        process = options.process
        super().__init__(process, COMPONENT, clock, folder)
        informers = Informers(self.own, clock)
        provider = load(process.cloud_provider, Surroundings(self.own, informers, clock, process.cloud_config))
        context = Context(self.own, informers, clock, self.recorder, provider, options.cloud, self.telemetry)
        self._hosted = host(select(process.controllers), context, self._client_of)
        manager, registry, nothing = self._hosted.manager, self.telemetry.registry, Choice((), ())
        self.telling = CloudTelling(manager, nothing, process, registry, self.identity, self.elector)

    async def lead(self) -> None:
        """Run the controllers until cancelled."""
        await self.with_tokens(lambda: self._hosted.run(self.grace))

    def _client_of(self, account: str) -> Client:
        return self.clients.for_loop(account).with_user_agent(f"{COMPONENT}/{account}")
