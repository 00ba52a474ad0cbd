# SPDX-License-Identifier: Apache-2.0
"""Maintains an Endpoints object for every Service with a selector, which lists its pods' addresses.

pod, service, endpoints ──▶ queue ──▶ reconciler ── subsets: addresses and ports ──▶ create, change, delete

Watches: services, pods, endpoints.
Owns: the endpoints of services with a selector.
Writes: creates, changes and deletes endpoints; a change has a precondition on their version.
Wakes itself: at the end of a large service's pause between two writes. Once after its start it checks all endpoints,
and deletes those whose service is gone.
Differs from upstream: a large service pauses for up to a second between two writes caused by its pods; endpoints with
too many addresses are not written repeatedly; a pod that ended without ever being ready is removed at once.
"""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Endpoints, Pod, Service
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.endpoints.reconciler import COMPONENT, ORPHAN_CHECK, Reconciler
from kubeloop.controllers.shared.endpoints.selection import ServicePodHandler, ServiceSelectorIndex
from kubeloop.controllers.shared.endpoints.sync_pacer import SyncPacer
from kubeloop.runtime.consistency_store import ConsistencyStore
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "endpoints-controller"
QUEUE = "endpoint"


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    informers, clock = context.informers, context.clock
    services, pods, endpoints = (informers.for_resource(resource_of_class(kind)) for kind in (Service, Pod, Endpoints))
    queue: WorkQueue[ObjectKey] = WorkQueue(clock, name=QUEUE, registry=context.telemetry.registry)
    pace, selection = (
        SyncPacer(clock, context.config.endpoint_updates_batch_period),
        ServiceSelectorIndex(services, pods),
    )
    reconciler = Reconciler(
        client=context.client,
        services=services,
        endpoints=endpoints,
        selection=selection,
        writer=PatchOrUpdate(context.client),
        consistency=ConsistencyStore(endpoints),
        pacer=pace,
        recorder=context.recorder.with_component(COMPONENT),
        queue=queue,
    )
    controller = Controller(
        NAME,
        reconciler.reconcile,
        clock,
        workers=context.config.concurrent_endpoint_syncs,
        queue=queue,
        telemetry=context.telemetry,
    )
    controller.watches(services, own_key, resync=context.resync_period())
    controller.add_event_handler(pods, ServicePodHandler(queue, selection, pace))
    controller.watches(endpoints, own_key, lambda _, new: new is None)
    queue.add(ORPHAN_CHECK)
    return controller
