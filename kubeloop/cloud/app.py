"""Builds the cloud controllers that the provider supports, and runs them under a manager."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from kubeloop.client import Client
from kubeloop.cloud import CloudControllerDescriptor
from kubeloop.cloud.context import CloudControllerContext, ControllerUnsupported
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.manager import Loop, LoopManager

COMPONENT = "cloud-controller-manager"

# Returns the client for a service account in kube-system.
Clients = Callable[[str], Client]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CloudControllerManagerApp:
    """Wired controllers that are ready to run; built by `host`."""

    manager: LoopManager
    context: CloudControllerContext

    async def run(self, grace: Callable[[], float]) -> None:
        """Fill the caches and keep the controllers running until cancelled; then drain them and close the provider."""
        informers: SharedInformerFactory = self.context.informers
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


def build_app(
    chosen: Sequence[CloudControllerDescriptor], context: CloudControllerContext, clients: Clients
) -> CloudControllerManagerApp:
    """Build the selected controllers, as far as the provider supports them."""
    loops = list(_wire_supported(chosen, context, clients))
    manager = LoopManager(loops, context.clock, name=COMPONENT, registry=context.telemetry.registry)
    return CloudControllerManagerApp(manager, context)


def _wire_supported(
    chosen: Sequence[CloudControllerDescriptor], context: CloudControllerContext, clients: Clients
) -> Iterator[Loop]:
    for one in chosen:
        try:
            yield one.wire()(replace(context, client=clients(one.account)))
        except ControllerUnsupported as error:
            log.info("%s does not run: %s", one.name, error)
