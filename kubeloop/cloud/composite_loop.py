# SPDX-License-Identifier: Apache-2.0
"""Combines several controllers into one, as upstream counts them."""

from __future__ import annotations

import asyncio

from kubeloop.runtime.controller import ControllerStatus, Health
from kubeloop.runtime.manager import Loop


class CompositeLoop:
    """Runs and drains its parts together; unhealthy if one part is."""

    def __init__(self, name: str, *parts: Loop) -> None:
        self.name = name
        self._parts = parts

    async def run(self) -> None:
        """Run all parts."""
        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(part.run(), name=part.name)

    async def drain(self, grace: float) -> bool:
        """Drain all parts."""
        return all(await asyncio.gather(*(part.drain(grace) for part in self._parts)))

    def health(self) -> Health:
        """Return the first bad health, or a good one."""
        return next((told for part in self._parts if not (told := part.health()).ok), Health(True))

    def status(self) -> ControllerStatus:
        """Return the summed status of all parts."""
        told = [part.status() for part in self._parts]
        failed = next((one for one in told if one.last_error), told[0])
        ok, why = self.health()
        return ControllerStatus(
            name=self.name,
            phase=told[0].phase,
            healthy=ok,
            why=why,
            workers=sum(one.workers for one in told),
            active=sum(one.active for one in told),
            depth=sum(one.depth for one in told),
            delayed=sum(one.delayed for one in told),
            reconciles=sum(one.reconciles for one in told),
            errors=sum(one.errors for one in told),
            busy_seconds=sum(one.busy_seconds for one in told),
            last_error=failed.last_error,
            last_error_key=failed.last_error_key,
        )
