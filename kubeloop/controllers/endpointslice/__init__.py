# SPDX-License-Identifier: Apache-2.0
"""Maintains EndpointSlices for every Service with a selector, with as few writes as possible.

pod, service, slice, node ──▶ queue ──▶ reconciler ── desired: an endpoint for each pod, grouped by ports
                                                    ── packing: assignment to slices
                                                    ── traffic, topology: hints for zones and nodes
                                                    ── writing: creations, changes, deletions

Watches: services, pods, nodes, endpoint slices.
Owns: endpoint slices whose `managed-by` label names this controller.
Writes: creates, changes and deletes these slices; a change has a precondition on the slice's version.
Wakes itself: one second after another client changed a slice; at the end of a large service's pause between two writes.
Differs from upstream: a large service pauses for up to a second between two writes caused by its pods; a service is
synced again when a node that one of its pods runs on appears or changes its zone; a pod that ended without ever being
ready is removed at once; slices that were created before the controller started are recreated when others delete them.
"""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Node, Pod, Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.endpointslice.metrics import EndpointSliceMetrics
from kubeloop.controllers.endpointslice.node_handler import NodeEventHandler
from kubeloop.controllers.endpointslice.reconciler import Reconciler
from kubeloop.controllers.endpointslice.slice_labels import MANAGER
from kubeloop.controllers.endpointslice.slice_writer import SliceWriter
from kubeloop.controllers.endpointslice.topology_cache import TopologyCache
from kubeloop.controllers.shared.endpoints.selection import ServicePodHandler, ServiceSelectorIndex
from kubeloop.controllers.shared.endpoints.slice_tracker import EndpointSliceTracker, SliceEventHandler
from kubeloop.controllers.shared.endpoints.sync_pacer import SyncPacer
from kubeloop.controllers.shared.endpoints.sync_queue import new_sync_queue
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key

NAME = "endpointslice-controller"
COMPONENT = "endpoint-slice-controller"  # source component of upstream's events
QUEUE = "endpoint_slice"
LAST_RETRY = 1000.0  # seconds
SLICE_DELAY = 1.0  # seconds after a change by another client, in which further ones are batched


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    informers, clock, config = context.informers, context.clock, context.config
    services, pods, nodes, slices = (
        informers.for_resource(resource_of_class(kind)) for kind in (Service, Pod, Node, EndpointSlice)
    )
    registry = context.telemetry.registry
    queue = new_sync_queue(QUEUE, LAST_RETRY, clock, registry)
    pace = SyncPacer(clock, config.endpointslice_updates_batch_period)
    selection, memory, topology = (
        ServiceSelectorIndex(services, pods),
        EndpointSliceTracker(slices, MANAGER),
        TopologyCache(nodes),
    )
    instruments = EndpointSliceMetrics(registry, config.max_endpoints_per_slice)
    node_wakeups = NodeEventHandler(queue, pods, selection, topology)
    reconciler = Reconciler(
        services=services,
        nodes=nodes,
        selection=selection,
        slice_tracker=memory,
        writer=SliceWriter(context.client, memory, instruments.changes),
        topology_cache=topology,
        node_handler=node_wakeups,
        pacer=pace,
        recorder=context.recorder.with_component(COMPONENT),
        metrics=instruments,
        capacity=config.max_endpoints_per_slice,
    )
    controller = Controller(
        NAME,
        reconciler.reconcile,
        clock,
        workers=config.concurrent_service_endpoint_syncs,
        queue=queue,
        telemetry=context.telemetry,
    )
    controller.watches(services, own_key, resync=context.resync_period())
    controller.add_event_handler(pods, ServicePodHandler(queue, selection, pace))
    controller.add_event_handler(nodes, node_wakeups)
    delay = max(SLICE_DELAY, config.endpointslice_updates_batch_period)
    controller.add_event_handler(slices, SliceEventHandler(queue, memory, delay))
    return controller
