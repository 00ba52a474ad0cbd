# SPDX-License-Identifier: Apache-2.0
"""Maintains a cloud load balancer for each Service of type LoadBalancer, and reports its address.

Watches: services, nodes.
Owns: the cloud's load balancers; the finalizer service.kubernetes.io/load-balancer-cleanup; status.loadBalancer.
Writes: patches of services' status and, by it, of their finalizers; events.
Wakes itself: after failures, from 5 seconds to 5 minutes; when the cloud says so; every 30 s for pending deletions.
Differs from upstream: changes of a service and of nodes are never applied to one load balancer concurrently; a load
balancer whose service was deleted without its finalizer is removed too; a service that is being deleted without our
finalizer gets no load balancer; node changes don't shorten the backoff of a service without a load balancer.
"""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Node, Service
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.cloud.context import CloudControllerContext, ControllerUnsupported
from kubeloop.cloud.service_lb.hosts import HostSet
from kubeloop.cloud.service_lb.load_balancer_manager import LoadBalancerManager
from kubeloop.cloud.service_lb.metrics import ServiceLbMetrics
from kubeloop.cloud.service_lb.reconciler import Reconciler, ServiceEventHandler
from kubeloop.cloud.service_lb.service_writer import ServiceWriter
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.rate_limiters import ItemExponentialFailureRateLimiter
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "service-lb-controller"
QUEUE = "service"  # upstream's queue name, as dashboards know it
COMPONENT = "service-controller"
FIRST_DELAY, LONGEST_DELAY = 5.0, 300.0  # seconds between attempts; clouds are slow
RESYNC = 30.0


def wire(context: CloudControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers; raises NotOffered."""
    balancers = context.provider.load_balancers
    if balancers is None:
        raise ControllerUnsupported("the cloud provider does not support external load balancers")
    config, clock, telemetry = context.config, context.clock, context.telemetry
    services = context.informers.for_resource(resource_of_class(Service))
    nodes = context.informers.for_resource(resource_of_class(Node))
    instruments = ServiceLbMetrics(clock, telemetry.registry)
    recorder = context.recorder.with_component(COMPONENT)
    balancing = LoadBalancerManager(
        balancers, config.cluster_name, ServiceWriter(context.client), recorder, instruments
    )
    hosts = HostSet(nodes)
    reconciler = Reconciler(services, hosts, balancing)
    limiter: ItemExponentialFailureRateLimiter[ObjectKey] = ItemExponentialFailureRateLimiter(
        FIRST_DELAY, LONGEST_DELAY
    )
    queue: WorkQueue[ObjectKey] = WorkQueue(clock, name=QUEUE, limiter=limiter, registry=telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, clock, workers=config.concurrent_service_syncs, queue=queue, telemetry=telemetry
    )
    handler = ServiceEventHandler(queue, reconciler)
    hosts.on_change = handler.handle_hosts_changed
    controller.add_event_handler(nodes, hosts)
    controller.add_event_handler(services, handler, resync=RESYNC)
    return controller
