# SPDX-License-Identifier: Apache-2.0
"""Wraps a controller that declares custom kinds: on every start the server must serve these kinds first."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.client import Client
from kubeloop.controllers.app.context import ControllerContext, CustomKindDefinition, Wire
from kubeloop.runtime.controller import ControllerStatus, Health
from kubeloop.runtime.manager import Loop


class CrdEnsuringController:
    """Ensures the custom kinds before the controller starts; while that fails, the supervisor retries the start."""

    def __init__(self, loop: Loop, kinds: Sequence[CustomKindDefinition], client: Client) -> None:
        self._loop = loop
        self._kinds = kinds
        self._client = client

    @property
    def name(self) -> str:
        """Name of the wrapped controller."""
        return self._loop.name

    async def run(self) -> None:
        """Ensure all kinds, then run the wrapped controller."""
        for kind in self._kinds:
            await kind.ensure(self._client)
        await self._loop.run()

    async def drain(self, grace: float) -> bool:
        """Drain the wrapped controller."""
        return await self._loop.drain(grace)

    def health(self) -> Health:
        """Return the health of the wrapped controller."""
        return self._loop.health()

    def status(self) -> ControllerStatus:
        """Return the status of the wrapped controller."""
        return self._loop.status()


def wire_with_kinds(wire: Wire, context: ControllerContext) -> Loop:
    """Wire a controller and wrap it if it declares custom kinds."""
    own = context.without_kinds()
    loop = wire(own)
    return CrdEnsuringController(loop, own.kinds, own.client) if own.kinds else loop
