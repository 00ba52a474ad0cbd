"""Builds the selected controllers with their dependencies and runs them under a manager."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module

from kubeloop.api.generated.core_v1 import ObjectReference
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers import ControllerSelection, InvalidControllers
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.controllers.app.context import ControllerContext, Wire
from kubeloop.controllers.app.ensure_crds import wire_with_kinds
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.manager import Incident, Loop, LoopManager

COMPONENT = "kube-controller-manager"
_POLL_SECONDS = 0.01  # seconds between two checks of the work queues

# Returns the client for a service account in kube-system; for an empty name, the manager's own client.
Clients = Callable[[str], Client]


@dataclass(frozen=True, slots=True)
class ControllerDependencies:
    """Dependencies that all controllers of a process share."""

    client: Client  # the manager's own client: fills the caches and writes events
    clients: Clients  # the clients that controllers write with
    recorder: EventRecorder  # run by `Hosted.run`
    clock: Clock
    config: ManagerConfig = field(default_factory=ManagerConfig)
    telemetry: Telemetry = field(default_factory=Telemetry)
    root_ca: str = ""


class ControllerManagerApp:
    """Wired controllers that are ready to run; built by `host`."""

    def __init__(self, manager: LoopManager, informers: SharedInformerFactory, recorder: EventRecorder) -> None:
        self.manager = manager
        self._informers = informers
        self._recorder = recorder

    async def run(self, grace: Callable[[], float]) -> None:
        """Fill the caches and keep the controllers running until cancelled; then drain them."""
        recording = asyncio.create_task(self._recorder.run(), name="event recorder")
        self._informers.start()
        try:
            await self.manager.run(grace)
        finally:
            await self._informers.stop()
            await self._recorder.flush(grace())
            recording.cancel()
            await asyncio.wait((recording,))

    async def first_work_done(self, within: float) -> None:
        """Wait until the controllers have processed all initial objects, or until `within` seconds have passed."""
        try:
            async with asyncio.timeout(within):
                await self._informers.wait_synced(within)
                while any(one.depth or one.active for one in self.manager.status()):  # noqa: ASYNC110  # there is no event
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            return


def build_app(choice: ControllerSelection, around: ControllerDependencies) -> ControllerManagerApp:
    """Build the selected and the loaded controllers. Raises `UnusableChoice` for one that cannot be built."""
    config, client, recorder = around.config, around.client, around.recorder
    informers = SharedInformerFactory(client, around.clock)
    alike = ControllerContext(client, informers, around.clock, recorder, config, around.telemetry, around.root_ca)
    loops = [one.wire()(replace(alike, client=around.clients(one.account))) for one in choice.chosen]
    loops += [_load_controller(what, replace(alike, client=around.clients(""))) for what in config.load]
    manager = LoopManager(
        loops, around.clock, name=COMPONENT, registry=around.telemetry.registry, report=_reporter(recorder, config)
    )
    return ControllerManagerApp(manager, informers, recorder)


def _reporter(recorder: EventRecorder, config: ManagerConfig) -> Callable[[Incident], None]:
    """Report incidents as events on the lease, the only object in the cluster that represents the manager."""
    lease = ObjectReference(
        api_version="coordination.k8s.io/v1",
        kind="Lease",
        namespace=config.leader_elect_resource_namespace,
        name=config.leader_elect_resource_name,
    )

    def report(incident: Incident) -> None:
        recorder.event(lease, "Warning", incident.reason, f"{incident.loop}: {incident.why}")

    return report


def _load_controller(what: str, context: ControllerContext) -> Loop:
    """Load a user's controller from `module:name`, where name is a function that takes a `Context`."""
    module, _, name = what.partition(":")
    if not module or not name:
        raise InvalidControllers(f"--load {what}: write it as module:name")
    try:
        wire: Wire = getattr(import_module(module), name)
        return wire_with_kinds(wire, context)
    except Exception as error:
        raise InvalidControllers(f"--load {what}: {type(error).__name__}: {error}") from error
