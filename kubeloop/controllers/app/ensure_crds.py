"""A loop with a kind of its own: whenever it starts, the server is made to serve that kind first."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.client import Client
from kubeloop.controllers.app.context import Context, Defined, Wire
from kubeloop.runtime.controller import Health, Status
from kubeloop.runtime.manager import Loop


class Defining:
    """The loop, whose start fails, and is tried again by its keeper, while its kinds can't be had."""

    def __init__(self, loop: Loop, kinds: Sequence[Defined], client: Client) -> None:
        self._loop = loop
        self._kinds = kinds
        self._client = client

    @property
    def name(self) -> str:
        return self._loop.name

    async def run(self) -> None:
        for kind in self._kinds:
            await kind.ensure(self._client)
        await self._loop.run()

    async def drain(self, grace: float) -> bool:
        return await self._loop.drain(grace)

    def health(self) -> Health:
        return self._loop.health()

    def status(self) -> Status:
        return self._loop.status()


def wired(wire: Wire, context: Context) -> Loop:
    """A loop that sees to the kinds that it declares."""
    own = context.for_another()
    loop = wire(own)
    return Defining(loop, own.kinds, own.client) if own.kinds else loop
