"""What a scheduler is made of, handed to it by whoever runs it."""

from __future__ import annotations

from typing import Protocol

from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.informer.informer import Informers


class Context(Protocol):
    """A loop's surroundings: as much of them as a scheduler needs."""

    @property
    def client(self) -> Client: ...
    @property
    def informers(self) -> Informers: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def telemetry(self) -> Telemetry: ...
