"""What a loop of the cloud is made of: handed to the function that wires it, by whoever runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.cloud.config import CloudConfig
from kubeloop.cloud.provider import Provider
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informers
from kubeloop.runtime.manager import Loop


@dataclass(frozen=True, slots=True)
class Context:
    """A loop's surroundings. Its writes go through `client`, which may be its own; reads come from shared caches."""

    client: Client
    informers: Informers
    clock: Clock
    recorder: EventRecorder
    provider: Provider
    config: CloudConfig = field(default_factory=CloudConfig)
    telemetry: Telemetry = field(default_factory=Telemetry)


class NotOffered(Exception):
    """A loop has nothing to do here: the cloud does not offer what it needs, or flags turn it off."""


# Every module of a loop has such a function named `wire`. Raises `NotOffered`.
Wire = Callable[[Context], Loop]
