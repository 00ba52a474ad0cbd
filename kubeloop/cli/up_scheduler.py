"""The scheduler of `kubeloop up`: in the server's own process, without a lease, because nobody else can run it."""

from __future__ import annotations

import asyncio

from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.context import AUTHENTICATED, User
from kubeloop.apiserver.entry import LocalEntry
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.runtime.caused_transport import CausedTransport
from kubeloop.runtime.controller import Telemetry
from kubeloop.scheduler.hosting import Hosted, host
from kubeloop.scheduler.scheduler import NAME

# The roles that give the scheduler its rights are made while it already works; in one process they guard nothing.
_USER = User(f"system:{NAME}", ("system:masters", AUTHENTICATED))
_DRAIN_SECONDS = 3.0


class RunningScheduler:
    """Made by `start_scheduler`."""

    def __init__(self, hosted: Hosted) -> None:
        self.manager = hosted.manager
        self._running = asyncio.create_task(hosted.run(lambda: _DRAIN_SECONDS), name="scheduler")

    async def close(self) -> None:
        """Let it finish what it is binding."""
        self._running.cancel()
        await asyncio.wait((self._running,))


def start_scheduler(server: ApiServer, clock: Clock) -> RunningScheduler:
    """Returns at once: it schedules when its caches are filled."""
    client = Client(CausedTransport(LocalEntry(server, _USER)), user_agent=NAME)
    return RunningScheduler(host(client, clock, Telemetry()))
