# SPDX-License-Identifier: Apache-2.0
"""Builds the selected controllers with their dependencies and runs them under a manager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module

from kubeloop.api.generated.core_v1 import ObjectReference
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers import ControllerDescriptor, InvalidControllers
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.controllers.app.context import ControllerContext, Wire
from kubeloop.controllers.app.ensure_crds import wire_with_kinds
from kubeloop.runtime.app import App
from kubeloop.runtime.controller import Telemetry
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import SharedInformerFactory
from kubeloop.runtime.informer.informer_metrics import InformerMetrics
from kubeloop.runtime.manager import Incident, Loop, LoopManager

COMPONENT = "kube-controller-manager"

# Returns the client for a service account in kube-system; for an empty name, the manager's own client.
Clients = Callable[[str], Client]


@dataclass(frozen=True, slots=True)
class ControllerDependencies:
    """Dependencies that all controllers of a process share."""

    client: Client  # the manager's own client: fills the caches and writes events
    clients: Clients  # the clients that controllers write with
    recorder: EventRecorder  # run by the app
    clock: Clock
    config: ManagerConfig = field(default_factory=ManagerConfig)
    telemetry: Telemetry = field(default_factory=Telemetry)
    root_ca: str = ""


def build_app(chosen: Sequence[ControllerDescriptor], around: ControllerDependencies) -> App:
    """Build the selected and the loaded controllers. Raises `InvalidControllers` for one that cannot be built."""
    config, client, recorder = around.config, around.client, around.recorder
    informers = SharedInformerFactory(
        client, around.clock, metrics=InformerMetrics(around.telemetry.registry, COMPONENT)
    )
    alike = ControllerContext(
        client, informers, around.clock, recorder, config, around.root_ca, telemetry=around.telemetry
    )
    loops = [one.wire()(replace(alike, client=around.clients(one.account))) for one in chosen]
    loops += [_load_controller(what, replace(alike, client=around.clients(""))) for what in config.load]
    manager = LoopManager(
        loops, around.clock, name=COMPONENT, registry=around.telemetry.registry, report=_reporter(recorder, config)
    )
    return App(manager, informers, recorder)


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
        raise InvalidControllers(f"--load {what}: must be of the form module:name")
    try:
        wire: Wire = getattr(import_module(module), name)
        return wire_with_kinds(wire, context)
    except Exception as error:
        raise InvalidControllers(f"--load {what}: {type(error).__name__}: {error}") from error
