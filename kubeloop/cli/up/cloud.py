# SPDX-License-Identifier: Apache-2.0
"""Cloud controllers of `kubeloop up`, in the server's process."""

from __future__ import annotations

from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.server import StartupError
from kubeloop.cli.up.election import ElectedComponent, LocalClients
from kubeloop.clock import Clock
from kubeloop.cloud import select
from kubeloop.cloud.app import COMPONENT, build_app
from kubeloop.cloud.config import CloudConfig
from kubeloop.cloud.context import CloudControllerContext
from kubeloop.cloud.provider_registry import InvalidProvider, ProviderDependencies, load
from kubeloop.cloud.route_plan import InvalidClusterCidr
from kubeloop.runtime.app import App
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import SharedInformerFactory


def start_cloud(server: ApiServer, clock: Clock, provider: str, config_file: str) -> ElectedComponent[App]:
    """Start the controllers; returns at once. Raises CannotStart for an unusable provider."""
    within = LocalClients(server, COMPONENT, clock)
    own = within.shared_client()
    # The pod network is unknown here, so routes are not configured.
    config = CloudConfig(configure_cloud_routes=False)

    def make() -> App:
        informers = SharedInformerFactory(own, clock)
        made = load(provider, ProviderDependencies(own, informers, clock, config_file))
        context = CloudControllerContext(own, informers, clock, EventRecorder(own, COMPONENT, clock), made, config)
        return build_app(select(["*"]), context, within.controller_client)

    try:
        return ElectedComponent("cloud", make, within.election)
    except (InvalidProvider, InvalidClusterCidr) as error:
        raise StartupError(str(error)) from None
