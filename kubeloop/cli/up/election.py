# SPDX-License-Identifier: Apache-2.0
"""Leader election within `kubeloop up` when several share an etcd.

Managers and the scheduler compete for the leases of the separate programs, which may compete as well.

A program that loses its lease ends, and is restarted. Here that would end an API server, too, so a component
that loses its lease competes again instead, with new caches and controllers.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Final, Generic, Protocol, TypeVar

from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import AUTHENTICATED, User
from kubeloop.client import Client
from kubeloop.client.transport import ClientTransport
from kubeloop.clock import Clock
from kubeloop.runtime.causes.transport import CauseTransport
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.leaderelection.fence import FencedTransport, LeadershipLost
from kubeloop.runtime.leaderelection.leader_elector import LeaderElector, LeaseDurations, new_identity
from kubeloop.runtime.manager import LoopManager

# The roles that give accounts their rights are made while loops already work; in one process they guard nothing.
GROUPS: Final = ("system:masters", AUTHENTICATED)
_NAMESPACE: Final = "kube-system"
_DRAIN_SECONDS: Final = 3.0
TERMS = LeaseDurations()

log = logging.getLogger(__name__)


class LeaderWork(Protocol):
    """Work that the leader runs, once."""

    manager: LoopManager

    async def run(self, grace: Callable[[], float]) -> None:
        """Run until cancelled, then drain for `grace()` seconds."""


Work = TypeVar("Work", bound=LeaderWork)


class Election:
    """Candidacy of one component for its lease."""

    def __init__(self, client: Client, component: str, clock: Clock) -> None:
        host = socket.gethostname()
        self._recorder = EventRecorder(client, component, clock, host=host)
        self._decided = asyncio.Event()
        self.identity = new_identity(host, clock)
        self.elector = LeaderElector(
            client, _NAMESPACE, component, self.identity, clock,
            terms=TERMS, recorder=self._recorder, on_new_leader=lambda _: self._decided.set(),
        )  # fmt: skip

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Lead whenever elected, until cancelled."""
        async with asyncio.TaskGroup() as group:
            recording = group.create_task(self._recorder.run(), name="event recorder of elections")
            try:
                while True:
                    try:
                        return await self.elector.run(lead)
                    except LeadershipLost as lost:
                        log.warning("leaderelection lost: %s", lost)
            finally:
                recording.cancel()

    async def wait_elected(self, within: float) -> bool:
        """Wait until an election is decided, at most `within` seconds; return True if elected."""
        try:
            async with asyncio.timeout(within):
                await self._decided.wait()
        except TimeoutError:
            return False
        return self.elector.is_leader


class ElectedComponent(Generic[Work]):
    """Component of this control plane: created at once, and run when elected."""

    def __init__(self, name: str, make: Callable[[], Work], standing: Election | None) -> None:
        self.election = standing
        self.app = make()
        self._make = make
        self._was_run = False
        run = self._lead() if standing is None else standing.run(self._lead)
        self._running = asyncio.create_task(run, name=name)

    def problem(self) -> str:
        """Return why the component is unhealthy, or an empty text."""
        if self._running.done():
            return "the component has ended"
        manager = self.app.manager
        return next((f"{name}: {why}" for name in manager.names if (why := manager.health(name).reason)), "")

    async def close(self) -> None:
        """Drain the component."""
        self._running.cancel()
        await asyncio.wait((self._running,))

    async def _lead(self) -> None:
        if self._was_run:
            self.app = self._make()
        self._was_run = True
        await self.app.run(self._grace)

    def _grace(self) -> float:
        """Return the seconds to drain; 0 without leadership, since writes are then forbidden."""
        return _DRAIN_SECONDS if self.election is None or self.election.elector.fence.is_open else 0.0


class LocalClients:
    """In-process clients of one component."""

    def __init__(self, server: ApiServer, component: str, clock: Clock) -> None:
        self._server = server
        self._component = component
        self.election = Election(self.shared_client(), component, clock) if server.registry.store.is_shared else None

    def shared_client(self) -> Client:
        """Return a client for reads, events and elections."""
        return self._client(self._entry(f"system:{self._component}"), self._component)

    def controller_client(self, account: str) -> Client:
        """Return a client whose writes are fenced by leadership; as a service account, if given."""
        name = f"system:serviceaccount:{_NAMESPACE}:{account}" if account else f"system:{self._component}"
        transport: ClientTransport = self._entry(name)
        if self.election is not None:
            transport = FencedTransport(transport, self.election.elector.fence)
        return self._client(transport, f"{self._component}/{account}" if account else self._component)

    def _entry(self, name: str) -> InProcessTransport:
        return InProcessTransport(self._server, User(name, GROUPS))

    def _client(self, transport: ClientTransport, user_agent: str) -> Client:
        return Client(CauseTransport(transport), user_agent=user_agent)
