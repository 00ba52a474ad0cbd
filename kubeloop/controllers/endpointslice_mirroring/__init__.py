# SPDX-License-Identifier: Apache-2.0
"""Mirrors user-managed Endpoints of Services without a selector into EndpointSlices.

endpoints, service, slice ──▶ queue ──▶ reconciler ── mirror: one slice for each subset and family ──▶ writes

Watches: endpoints, services, endpoint slices.
Owns: endpoint slices whose `managed-by` label names this controller.
Writes: creates, changes and deletes these slices; a change has a precondition on the slice's version.
Wakes itself: never.
Differs from upstream: a slice that is being deleted no longer counts.
"""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Endpoints, Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.endpointslice_mirroring.metrics import MirroringMetrics
from kubeloop.controllers.endpointslice_mirroring.mirror import MANAGER, should_mirror
from kubeloop.controllers.endpointslice_mirroring.reconciler import Reconciler
from kubeloop.controllers.shared.endpoints.slice_tracker import EndpointSliceTracker, SliceEventHandler
from kubeloop.controllers.shared.endpoints.sync_queue import new_sync_queue
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate
from kubeloop.runtime.queue.enqueue import own_key

NAME = "endpointslice-mirroring-controller"
COMPONENT = "endpoint-slice-mirroring-controller"  # source component of upstream's events
QUEUE = "endpoint_slice_mirroring"
LAST_RETRY = 100.0  # seconds


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    informers, clock, config = context.informers, context.clock, context.config
    endpoints, services, slices = (
        informers.for_resource(resource_of_class(kind)) for kind in (Endpoints, Service, EndpointSlice)
    )  # fmt: skip
    registry = context.telemetry.registry
    queue = new_sync_queue(QUEUE, LAST_RETRY, clock, registry)
    memory, most = EndpointSliceTracker(slices, MANAGER), config.mirroring_max_endpoints_per_subset
    reconciler = Reconciler(
        client=context.client,
        clock=clock,
        services=services,
        endpoints=endpoints,
        slice_tracker=memory,
        writer=PatchOrUpdate(context.client),
        recorder=context.recorder.with_component(COMPONENT),
        metrics=MirroringMetrics(registry, most),
        max_endpoints_per_subset=most,
    )
    controller = Controller(
        NAME,
        reconciler.reconcile,
        clock,
        workers=config.mirroring_concurrent_service_endpoint_syncs,
        queue=queue,
        telemetry=context.telemetry,
    )
    controller.watches(endpoints, own_key, _is_mirrored, resync=context.resync_period())
    controller.watches(services, own_key, _matters)
    controller.add_event_handler(
        slices, SliceEventHandler(queue, memory, config.mirroring_endpointslice_updates_batch_period)
    )
    return controller


def _is_mirrored(old: Endpoints | None, new: Endpoints | None) -> bool:
    return any(one is not None and should_mirror(one) for one in (old, new))


def _matters(old: Service | None, new: Service | None) -> bool:
    """Return True if a Service without a selector is added or deleted, or if its selector is added or removed."""
    if old is None or new is None:
        return any(one is not None and not one.spec.selector for one in (old, new))
    return bool(old.spec.selector) != bool(new.spec.selector)
