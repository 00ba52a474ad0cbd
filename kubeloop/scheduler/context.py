"""Dependencies of a scheduler, provided by the program that runs it."""

from __future__ import annotations

from typing import Protocol

from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.informer.informer import SharedInformerFactory


class SchedulerContext(Protocol):
    """Part of a controller's context that a scheduler needs."""

    @property
    def client(self) -> Client:
        """API client."""

    @property
    def informers(self) -> SharedInformerFactory:
        """Shared informers."""

    @property
    def clock(self) -> Clock:
        """Clock."""

    @property
    def telemetry(self) -> Telemetry:
        """Metrics registry and journal."""
