"""Cloud controllers of `kubeloop up`, in the server's process."""

from __future__ import annotations

from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.server import CannotStart
from kubeloop.cli.up.election import Part, Within
from kubeloop.clock import Clock
from kubeloop.cloud import select
from kubeloop.cloud.app import COMPONENT, Hosted, host
from kubeloop.cloud.config import CloudConfig
from kubeloop.cloud.context import Context
from kubeloop.cloud.provider_registry import Surroundings, UnusableProvider, load
from kubeloop.cloud.route_plan import UnusableNetworks
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informers


def start_cloud(server: ApiServer, clock: Clock, provider: str, config_file: str) -> Part[Hosted]:
    """Start the controllers; returns at once. Raises CannotStart for an unusable provider."""
    within = Within(server, COMPONENT, clock)
    own = within.own()
    # The pod network is unknown here, so routes are not configured.
    config = CloudConfig(configure_cloud_routes=False)

    def make() -> Hosted:
        informers = Informers(own, clock)
        made = load(provider, Surroundings(own, informers, clock, config_file))
        context = Context(own, informers, clock, EventRecorder(own, COMPONENT, clock), made, config)
        return host(select(["*"]), context, within.for_loop)

    try:
        return Part("cloud", make, within.standing)
    except (UnusableProvider, UnusableNetworks) as error:
        raise CannotStart(str(error)) from None
