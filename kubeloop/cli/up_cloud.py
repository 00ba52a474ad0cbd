"""The cloud of `kubeloop up`: its loops in the server's own process, for services that want an address."""

from __future__ import annotations

import asyncio

from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.context import AUTHENTICATED, User
from kubeloop.apiserver.entry import LocalEntry
from kubeloop.apiserver.server import CannotStart
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.cloud import select
from kubeloop.cloud.config import CloudConfig
from kubeloop.cloud.context import Context
from kubeloop.cloud.hosting import COMPONENT, Hosted, host
from kubeloop.cloud.loading import Surroundings, UnusableProvider, load
from kubeloop.cloud.route_plan import UnusableNetworks
from kubeloop.runtime.caused_transport import CausedTransport
from kubeloop.runtime.informer import Informers
from kubeloop.runtime.recorder import EventRecorder

# As with loops: in one process accounts of their own would guard nothing.
_GROUPS = ("system:masters", AUTHENTICATED)
_DRAIN_SECONDS = 3.0


class RunningCloud:
    """Made by `start_cloud`."""

    def __init__(self, hosted: Hosted) -> None:
        self._running = asyncio.create_task(hosted.run(lambda: _DRAIN_SECONDS), name="cloud")

    async def close(self) -> None:
        """Let the loops finish what they have begun."""
        self._running.cancel()
        await asyncio.wait((self._running,))


def start_cloud(server: ApiServer, clock: Clock, provider: str, config_file: str) -> RunningCloud:
    """Returns at once: the loops work when their caches are filled. Raises CannotStart for a provider without use."""

    def client(account: str) -> Client:
        name = f"system:serviceaccount:kube-system:{account}" if account else f"system:{COMPONENT}"
        transport = CausedTransport(LocalEntry(server, User(name, _GROUPS)))
        return Client(transport, user_agent=f"{COMPONENT}/{account}" if account else COMPONENT)

    own = client("")
    informers = Informers(own, clock)
    # Nobody says here which network pods are in, so routes are left alone.
    config = CloudConfig(configure_cloud_routes=False)
    try:
        made = load(provider, Surroundings(own, informers, clock, config_file))
        context = Context(own, informers, clock, EventRecorder(own, COMPONENT, clock), made, config)
        return RunningCloud(host(select(["*"]), context, client))
    except (UnusableProvider, UnusableNetworks) as error:
        raise CannotStart(str(error)) from None
