# SPDX-License-Identifier: Apache-2.0
"""HTTPS ports of the controllers and the scheduler of `kubeloop up`: health, metrics and configuration."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from kubeloop.apiserver.nonresource.health import Check
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.pki.files import Pki
from kubeloop.cli.secure_port.authz import DelegatedAuthorizer
from kubeloop.cli.secure_port.server import ManagerStatus, SecurePort, StatusProvider, open_port
from kubeloop.cli.secure_port.status_pages import StatusPages
from kubeloop.cli.up.election import ElectedComponent
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.app import App

HOST = "127.0.0.1"

log = logging.getLogger(__name__)


class CurrentStatusPages:
    """Status pages of a component's current app, which changes with each election."""

    def __init__(
        self,
        component: ElectedComponent[Any],
        config: ManagerConfig,
        registry: MetricRegistry,
        pages: type[StatusPages] = StatusPages,
    ) -> None:
        self._component = component
        self._config = config
        self._registry = registry
        self._pages_type = pages

    @property
    def component(self) -> str:
        """Upstream's name of the program."""
        return self._pages_type.component

    def flags(self) -> Mapping[str, str]:
        """Return the values of the program's flags that apply here."""
        return self._pages().flags()

    def checks(self) -> tuple[Mapping[str, Check], Mapping[str, Check]]:
        """Return the current liveness and readiness checks."""
        return self._pages().checks()

    def metrics(self) -> str:
        """Return the current metrics."""
        return self._pages().metrics()

    def metrics_pages(self) -> Mapping[str, MetricRegistry]:
        """Return the metrics of other paths."""
        return self._registry.pages

    def configz(self) -> Mapping[str, Any]:
        """Return the current configuration."""
        return self._pages().configz()

    def status(self) -> ManagerStatus:
        """Return the current status."""
        return self._pages().status()

    def _pages(self) -> StatusPages:
        app: App = self._component.app
        election = self._component.election
        identity, elector = ("kubeloop up", None) if election is None else (election.identity, election.elector)
        return self._pages_type(app.manager, self._config, self._registry, identity, elector)


def port_config(pki: Pki, port: int) -> ManagerConfig:
    """Return the configuration of a port on loopback that trusts the API server's CA."""
    return ManagerConfig(
        leader_elect=False,
        bind_address=HOST,
        secure_port=port,
        tls_cert_file=str(pki.serving_certificate),
        tls_private_key_file=str(pki.serving_key),
        client_ca_file=str(pki.ca),
    )


async def open_component_port(
    name: str, pages: StatusProvider, client: Client, config: ManagerConfig, clock: Clock
) -> SecurePort:
    """Open the port, or a free one, and say so, if it is taken: by another control plane on this machine."""
    access = DelegatedAuthorizer(client, client, config, clock)
    try:
        return await open_port(pages, access, client, config, clock)
    except StartupError as error:
        opened = await open_port(pages, access, client, replace(config, secure_port=0), clock)
        log.warning("the %s listens on %s:%d instead: %s", name, HOST, opened.port, error)
        return opened
