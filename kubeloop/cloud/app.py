"""Builds the cloud controllers that the provider supports, and runs them under a manager."""

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

# Returns the client for a service account in kube-system.
Clients = Callable[[str], Client]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hosted:
    """Wired controllers that are ready to run; built by `host`."""

    manager: Manager
    context: Context

    async def run(self, grace: Callable[[], float]) -> None:
        """Fill the caches and keep the controllers running until cancelled; then drain them and close the provider."""
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
    """Build the selected controllers, as far as the provider supports them."""
    loops = list(_wired(chosen, context, clients))
    manager = Manager(loops, context.clock, name=COMPONENT, registry=context.telemetry.registry)
    return Hosted(manager, context)


def _wired(chosen: Sequence[Descriptor], context: Context, clients: Clients) -> Iterator[Loop]:
    for one in chosen:
        try:
            yield one.wire()(replace(context, client=clients(one.account)))
        except NotOffered as error:
            log.info("%s does not run: %s", one.name, error)
