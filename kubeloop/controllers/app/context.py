# SPDX-License-Identifier: Apache-2.0
"""Dependencies of one controller, passed to its `wire` function by the program that runs the manager."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from kubeloop.api.kinds import Resource
from kubeloop.client import Client
from kubeloop.client.scheme import TypedKind
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.runtime.app import LoopContext
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.manager import Loop


class CustomKindDefinition(TypedKind, Protocol):
    """Custom kind that an API server can be made to serve; implemented by `CustomKind`."""

    async def ensure(self, client: Client) -> None:
        """Return when the server serves the kind."""


@dataclass(frozen=True, slots=True)
class ControllerContext(LoopContext):
    """Dependencies of a controller."""

    recorder: EventRecorder
    config: ManagerConfig = field(default_factory=ManagerConfig)
    root_ca: str = ""  # PEM bundle of the CA that signed the API server's certificate
    kinds: list[CustomKindDefinition] = field(default_factory=list)  # kinds that the controller has declared

    def declare_kind(self, kind: CustomKindDefinition) -> Resource:
        """Declare a custom kind of the controller; the program that runs it ensures that the server serves the kind.

        The context's client takes and returns objects of the kind's class.
        """
        self.kinds.append(kind)
        self.client.add_kind(kind)
        return kind.resource

    def without_kinds(self) -> ControllerContext:
        """Return a copy with an empty list of kinds, for another controller."""
        return replace(self, kinds=[])

    def resync_period(self) -> float:
        """Return the resync period: min_resync_period times a random factor between 1 and 2."""
        return self.config.min_resync_period * (1 + self.clock.random().random())


# Every controller module has such a function named `wire`; in user-defined controllers any name is allowed.
Wire = Callable[[ControllerContext], Loop]
