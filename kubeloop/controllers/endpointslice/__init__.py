"""Every service with a selector has slices that list its pods' addresses, changed by as few writes as possible.

pod, service, slice, node ──▶ queue ──▶ reconciler ── desired: an endpoint for each pod, grouped by ports
                                                   ── packing: into which slices?
                                                   ── traffic, topology: for which zones and nodes?
                                                   ── writing: creations, changes, deletions

Watches: services, pods, nodes, endpoint slices.
Owns: endpoint slices whose `managed-by` label names this loop.
Writes: creates, changes and deletes these slices; a change has a precondition on the slice's version.
Wakes itself: one second after somebody else changed a slice; at the end of a large service's rest between two writes.
Differs from upstream: a large service rests for up to a second between two writes that its pods ask for; a service is
looked at again when a node that one of its pods runs on appears or changes its zone; a pod that ended without ever
being ready is removed at once; slices that were made before the loop started are made anew when somebody deletes them.
"""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Node, Pod, Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import Context
from kubeloop.controllers.endpointslice.instruments import Instruments
from kubeloop.controllers.endpointslice.nodes import NodeWakeups
from kubeloop.controllers.endpointslice.reconciler import Reconciler
from kubeloop.controllers.endpointslice.slice_labels import MANAGER
from kubeloop.controllers.endpointslice.topology import Topology
from kubeloop.controllers.endpointslice.writing import SliceWriter
from kubeloop.controllers.shared.endpoints.pace import Pace
from kubeloop.controllers.shared.endpoints.selection import PodWakeups, Selection
from kubeloop.controllers.shared.endpoints.slice_memory import SliceMemory, SliceWakeups
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.rate_limits import Bucket, ItemExponential, MaxOf
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "endpointslice-controller"
COMPONENT = "endpoint-slice-controller"  # whom upstream's events name
QUEUE = "endpoint_slice"
FIRST_RETRY = 1.0  # seconds; a failed look may have cost many writes
LAST_RETRY = 1000.0
SLICE_DELAY = 1.0  # after a change of a slice by others, in which more of them may come


def wire(context: Context) -> Controller[ObjectKey]:
    informers, clock, config = context.informers, context.clock, context.config
    services, pods, nodes, slices = (
        informers.of(resource_of_class(kind)) for kind in (Service, Pod, Node, EndpointSlice)
    )
    registry = context.telemetry.registry
    limiter = MaxOf[ObjectKey](ItemExponential(FIRST_RETRY, LAST_RETRY), Bucket(clock))
    queue = WorkQueue(clock, name=QUEUE, limiter=limiter, registry=registry)
    pace = Pace(clock, config.endpointslice_updates_batch_period)
    selection, memory, topology = Selection(services, pods), SliceMemory(slices, MANAGER), Topology(nodes)
    instruments = Instruments(registry, config.max_endpoints_per_slice)
    node_wakeups = NodeWakeups(queue, pods, selection, topology)
    reconciler = Reconciler(
        services=services,
        nodes=nodes,
        selection=selection,
        memory=memory,
        writer=SliceWriter(context.client, memory, instruments.changes),
        topology=topology,
        node_wakeups=node_wakeups,
        pace=pace,
        recorder=context.recorder.of_component(COMPONENT),
        instruments=instruments,
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
    controller.listens_to(pods, PodWakeups(queue, selection, pace))
    controller.listens_to(nodes, node_wakeups)
    delay = max(SLICE_DELAY, config.endpointslice_updates_batch_period)
    controller.listens_to(slices, SliceWakeups(queue, memory, delay))
    return controller
