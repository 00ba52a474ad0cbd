"""From a provider to the cloud's loops that run: wires those that it can serve, and keeps them by a manager."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from kubeloop.client import Client
from kubeloop.cloud import Descriptor
from kubeloop.cloud.context import Context, NotOffered
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informers
from kubeloop.runtime.manager import Loop, Manager

COMPONENT = "cloud-controller-manager"

# Given a service account of kube-system, who writes in its name.
Clients = Callable[[str], Client]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hosted:
    """Loops, ready to run; made by `host`."""

    manager: Manager
    context: Context

    async def run(self, grace: Callable[[], float]) -> None:
        """Fill the caches and keep the loops running, until cancelled; then drain them, and let the cloud go."""
        informers: Informers = self.context.informers
        recorder: EventRecorder = self.context.recorder
        recording = asyncio.create_task(recorder.run(), name="event recorder")
        informers.start()
        try:
            await self.manager.run(grace)
        finally:
            await informers.stop()
            await self.context.provider.close()
            await recorder.flush(grace())
            recording.cancel()
            await asyncio.wait((recording,))


def host(chosen: Sequence[Descriptor], context: Context, clients: Clients) -> Hosted:
    """The chosen loops, as far as the cloud offers what they need."""
    loops = list(_wired(chosen, context, clients))
    manager = Manager(loops, context.clock, name=COMPONENT, registry=context.telemetry.registry)
    return Hosted(manager, context)


def _wired(chosen: Sequence[Descriptor], context: Context, clients: Clients) -> Iterator[Loop]:
    for one in chosen:
        try:
            yield one.wire()(replace(context, client=clients(one.account)))
        except NotOffered as error:
            log.info("%s does not run: %s", one.name, error)
