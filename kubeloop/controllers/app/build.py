"""From the names of loops to loops that run: wires each with its surroundings, and keeps them by a manager."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module

from kubeloop.api.generated.core_v1 import ObjectReference
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers import Choice, UnusableChoice
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.controllers.app.context import Context, Wire
from kubeloop.controllers.app.ensure_crds import wired
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informers
from kubeloop.runtime.manager import Incident, Loop, Manager

COMPONENT = "kube-controller-manager"
_GLANCE = 0.01  # seconds between two looks at whether the first work is done

# Given a service account of kube-system, who writes in its name; without one, in the manager's.
Clients = Callable[[str], Client]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all loops of a process share."""

    client: Client  # the manager's own: it fills the caches and writes events
    clients: Clients  # what loops write by
    recorder: EventRecorder  # run by `Hosted.run`
    clock: Clock
    config: ManagerConfig = field(default_factory=ManagerConfig)
    telemetry: Telemetry = field(default_factory=Telemetry)
    root_ca: str = ""


class Hosted:
    """Loops, ready to run; made by `host`."""

    def __init__(self, manager: Manager, informers: Informers, recorder: EventRecorder) -> None:
        self.manager = manager
        self._informers = informers
        self._recorder = recorder

    async def run(self, grace: Callable[[], float]) -> None:
        """Fill the caches and keep the loops running, until cancelled; then drain them."""
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
        """Return when the loops have seen to all that was there when they started, or after so many seconds."""
        try:
            async with asyncio.timeout(within):
                await self._informers.wait_synced(within)
                while any(one.depth or one.active for one in self.manager.status()):  # noqa: ASYNC110  # nobody tells
                    await asyncio.sleep(_GLANCE)
        except TimeoutError:
            return


def host(choice: Choice, around: Surroundings) -> Hosted:
    """The chosen loops and those to be loaded. Raises `UnusableChoice` for one that can't be had."""
    config, client, recorder = around.config, around.client, around.recorder
    informers = Informers(client, around.clock)
    alike = Context(client, informers, around.clock, recorder, config, around.telemetry, around.root_ca)
    loops = [one.wire()(replace(alike, client=around.clients(one.account))) for one in choice.chosen]
    loops += [_loaded(what, replace(alike, client=around.clients(""))) for what in config.load]
    manager = Manager(
        loops, around.clock, name=COMPONENT, registry=around.telemetry.registry, report=_reporter(recorder, config)
    )
    return Hosted(manager, informers, recorder)


def _reporter(recorder: EventRecorder, config: ManagerConfig) -> Callable[[Incident], None]:
    """Incidents as events about the lease: it is what there is of the manager in the cluster."""
    lease = ObjectReference(
        api_version="coordination.k8s.io/v1",
        kind="Lease",
        namespace=config.leader_elect_resource_namespace,
        name=config.leader_elect_resource_name,
    )

    def report(incident: Incident) -> None:
        recorder.event(lease, "Warning", incident.reason, f"{incident.loop}: {incident.why}")

    return report


def _loaded(what: str, context: Context) -> Loop:
    """Somebody's own loop, as `module:name`; the name is that of a function from a `Context` to a loop."""
    module, _, name = what.partition(":")
    if not module or not name:
        raise UnusableChoice(f"--load {what}: write it as module:name")
    try:
        wire: Wire = getattr(import_module(module), name)
        return wired(wire, context)
    except Exception as error:
        raise UnusableChoice(f"--load {what}: {type(error).__name__}: {error}") from error
