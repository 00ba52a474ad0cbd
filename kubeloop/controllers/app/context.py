"""What a loop is made of: handed to the function that wires it, by whoever runs the manager."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from kubeloop.api.kinds import Resource
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informers
from kubeloop.runtime.manager import Loop


class Defined(Protocol):
    """A kind that a server can be made to serve; a `CustomKind`."""

    @property
    def resource(self) -> Resource: ...

    async def ensure(self, client: Client) -> None:
        """Return when the server serves it."""


@dataclass(frozen=True, slots=True)
class Context:
    """A loop's surroundings. Its writes go through `client`, which may be its own; reads come from shared caches."""

    client: Client
    informers: Informers
    clock: Clock
    recorder: EventRecorder
    config: ManagerConfig = field(default_factory=ManagerConfig)
    telemetry: Telemetry = field(default_factory=Telemetry)
    root_ca: str = ""  # PEM: who signed the API server's certificate
    kinds: list[Defined] = field(default_factory=list)  # what the loop has declared

    def defines(self, kind: Defined) -> Resource:
        """Declare a kind of the loop's own: whoever runs the loop sees to it that the server knows the kind."""
        self.kinds.append(kind)
        return kind.resource

    def for_another(self) -> Context:
        """The same surroundings for a loop that declares its own kinds."""
        return replace(self, kinds=[])

    def resync_period(self) -> float:
        """How often a loop looks at everything anew: once to twice the shortest period, as chance has it."""
        return self.config.min_resync_period * (1 + self.clock.random().random())


# Every module of a loop has such a function named `wire`; one's own may have any name.
Wire = Callable[[Context], Loop]
