# SPDX-License-Identifier: Apache-2.0
"""Placeholder for a controller that flags disable: it is healthy and does nothing."""

from __future__ import annotations

import asyncio

from kubeloop.runtime.controller import ControllerStatus, Health, Phase


class DisabledController:
    """Controller without work; runs until it is drained."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._phase: Phase = "not started"
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Wait until the controller is drained."""
        self._phase = "running"
        try:
            await self._ended.wait()
        finally:
            self._phase = "ended"

    async def drain(self, grace: float) -> bool:
        """Stop the controller; always succeeds."""
        self._ended.set()
        return True

    def health(self) -> Health:
        """Return the health, which is always good."""
        return Health(True)

    def status(self) -> ControllerStatus:
        """Return a status without workers and without work."""
        return ControllerStatus(
            name=self.name,
            phase=self._phase,
            healthy=True,
            why="",
            workers=0,
            active=0,
            depth=0,
            delayed=0,
            reconciles=0,
            errors=0,
            busy_seconds=0.0,
            last_error="",
            last_error_key="",
        )
