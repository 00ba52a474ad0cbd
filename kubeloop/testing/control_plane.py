# SPDX-License-Identifier: Apache-2.0
"""Control plane of `kubeloop up` on a test cluster's API server: controllers, scheduler, cloud controllers.

The parts are started by the functions that `kubeloop up` starts them with, without ports and in virtual time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.server import ApiServerConfig, ServiceAccountTokenConfig
from kubeloop.cli.pki.files import Pki
from kubeloop.cli.pki.issue import issue_missing
from kubeloop.cli.up.cloud import start_cloud
from kubeloop.cli.up.controllers import RunningControllers, start_controllers
from kubeloop.cli.up.election import ElectedComponent
from kubeloop.cli.up.flags import DEFAULT_CLOUD
from kubeloop.cli.up.run import ensure_default_class
from kubeloop.cli.up.scheduler import RunningScheduler, start_scheduler
from kubeloop.clock import Clock, SystemClock
from kubeloop.runtime.app import App
from kubeloop.runtime.manager import Loop

_NO_PORT = 0


@dataclass(frozen=True, slots=True)
class ClusterControlPlane:
    """Started components of a control plane."""

    controllers: RunningControllers
    scheduler: RunningScheduler
    cloud: ElectedComponent[App]

    @property
    def loops(self) -> Iterator[Loop]:
        """All loops of the components."""
        for app in (self.controllers.part.app, self.scheduler.component.app, self.cloud.app):
            yield from app.manager.loops


def write_keys(folder: Path) -> Pki:
    """Write the keys of a control plane into a folder; they are created once per process."""
    for name, content in _issued_files().items():
        (folder / name).write_bytes(content)
    return Pki(folder)


@cache
def _issued_files() -> Mapping[str, bytes]:
    """Return certificates that are valid by the wall clock, whatever time it is in a cluster."""
    return issue_missing({}, ["localhost"], SystemClock().now()).files


def with_account_key(config: ApiServerConfig, pki: Pki) -> ApiServerConfig:
    """Return the configuration of a server that accepts the service account tokens of the controllers."""
    return replace(config, service_account_tokens=ServiceAccountTokenConfig(pki.account_key))


async def start_control_plane(
    server: ApiServer, clock: Clock, pki: Pki, gates: tuple[str, ...], parts: AsyncExitStack
) -> ClusterControlPlane:
    """Start all components; returns when the controllers have processed the present objects. The stack stops them."""
    await ensure_default_class(server)
    controllers = await start_controllers(server, pki, clock, _NO_PORT, gates)
    parts.push_async_callback(controllers.close)
    scheduler = await start_scheduler(server, pki, clock, _NO_PORT, gates)
    parts.push_async_callback(scheduler.close)
    cloud = start_cloud(server, clock, DEFAULT_CLOUD, "")
    parts.push_async_callback(cloud.close)
    return ClusterControlPlane(controllers, scheduler, cloud)
