"""The loops of `kubeloop up`: in the server's own process, without a lease, because nobody else can run them."""

from __future__ import annotations

import asyncio

from kubeloop.apiserver.app import ApiServer
from kubeloop.apiserver.context import AUTHENTICATED, User
from kubeloop.apiserver.entry import LocalEntry
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers import select
from kubeloop.controllers.hosting import COMPONENT, Surroundings, host
from kubeloop.runtime.caused_transport import CausedTransport

# The roles that give each account its rights are made while loops already work; in one process they guard nothing.
_GROUPS = ("system:masters", AUTHENTICATED)
_FIRST_WORK_SECONDS = 5.0
_DRAIN_SECONDS = 3.0


class Loops:
    """Running loops; made by `start_loops`."""

    def __init__(self, running: asyncio.Task[None]) -> None:
        self._running = running

    async def close(self) -> None:
        """Let them finish what they have begun."""
        self._running.cancel()
        await asyncio.wait((self._running,))


async def start_loops(server: ApiServer, root_ca: str, clock: Clock) -> Loops:
    """Returns when the loops have seen to everything that was there, such as the accounts that pods need."""

    def client(account: str) -> Client:
        name = f"system:serviceaccount:kube-system:{account}" if account else f"system:{COMPONENT}"
        transport = CausedTransport(LocalEntry(server, User(name, _GROUPS)))
        return Client(transport, user_agent=f"{COMPONENT}/{account}" if account else COMPONENT)

    hosted = host(select(["*"]), Surroundings(client(""), client, clock, root_ca=root_ca))
    running = asyncio.create_task(hosted.run(lambda: _DRAIN_SECONDS), name="loops")
    await hosted.first_work_done(_FIRST_WORK_SECONDS)
    return Loops(running)
