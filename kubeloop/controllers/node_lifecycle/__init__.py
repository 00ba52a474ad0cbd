# SPDX-License-Identifier: Apache-2.0
"""Marks silent nodes as not ready, and taints nodes by their conditions so that pods avoid or leave them.

flags, leases, nodes ──▶ monitor: health, zones ──▶ conditions of silent nodes, pods not ready
                             └▶ evictors: rate limits ──▶ NoExecute taints
nodes ──▶ NoSchedule taints of conditions, deprecated labels

Watches: nodes, their leases, and pods.
Owns: the taints for conditions of nodes, and the labels `beta.kubernetes.io/os` and `…/arch`.
Writes: conditions of silent nodes; taints and labels of nodes; the Ready condition of pods on silent nodes.
Wakes itself: every `--node-monitor-period`; and in each zone when the next node may be tainted.
Differs from upstream: nodes excluded from disruption are still tainted at their zone's rate; an existing taint keeps
  its time when it is due again; while the cache of leases is outdated, zones aren't evaluated either; a node recreated
  under the same name starts afresh; a lease renewed with an earlier time than before counts as renewed, since the
  node's clock was set back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Time
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.node_lifecycle.health import NodeGracePeriods
from kubeloop.controllers.node_lifecycle.metrics import NodeLifecycleMetrics
from kubeloop.controllers.node_lifecycle.monitor import (
    LEASE_NAMESPACE,
    NodeMonitor,
    NodeMonitorCaches,
    NodeMonitorWriters,
)
from kubeloop.controllers.node_lifecycle.node_writer import NodeWriter
from kubeloop.controllers.node_lifecycle.taints import labels_to_reconcile, with_condition_taints, with_eviction_taint
from kubeloop.controllers.node_lifecycle.unready_pods import PodReadinessWriter
from kubeloop.controllers.node_lifecycle.zone_queues import ZoneTaintQueues
from kubeloop.controllers.node_lifecycle.zones import EvictionRates
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.informer.store import NODE, node_name_of
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "node-lifecycle-controller"
QUEUE = "node_lifecycle_controller"
COMPONENT = "node-controller"
WORKERS = 12  # upstream has eight for nodes and four for pods


class NodeLifecycleKey(NamedTuple):
    """Queue key: all nodes, the next taints of a zone, or a single node or pod."""

    kind: Literal["monitor", "zone", "node", "pod"]
    name: str = ""
    namespace: str = ""


MONITOR = NodeLifecycleKey("monitor")


def wire(context: ControllerContext) -> Controller[NodeLifecycleKey]:
    """Build the controller and register its event handlers."""
    config = context.config
    views = NodeMonitorCaches(
        context.informers.for_resource(resource_of_class(Node)),
        context.informers.for_resource(resource_of_class(Lease), namespace=LEASE_NAMESPACE),
        context.informers.for_resource(resource_of_class(Pod)),
    )
    views.pods.add_indexer(NODE, node_name_of)
    recorder = context.recorder.with_component(COMPONENT)
    instruments = NodeLifecycleMetrics(context.telemetry.registry)
    evictors = _new_zone_queues(context, instruments)
    grace_periods = NodeGracePeriods(
        timedelta(seconds=config.node_monitor_grace_period), timedelta(seconds=config.node_startup_grace_period)
    )
    writer, pods = NodeWriter(context.client), PodReadinessWriter(context.client, recorder, context.clock)
    hands = NodeMonitorWriters(context.client, writer, pods, recorder, context.clock, instruments)
    monitor = NodeMonitor(views, hands, evictors, grace_periods)
    queue: WorkQueue[NodeLifecycleKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    schedule = MonitorSchedule(config.node_monitor_period, queue.add)
    reconciler = Reconciler(views, hands, monitor, evictors, schedule)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.require_synced(views.leases)  # the periodic check finds changes
    controller.watches(
        views.nodes, lambda node: (NodeLifecycleKey("node", node.metadata.name),), affects_taints_or_labels
    )
    controller.watches(views.pods, _pod_task, was_bound)
    queue.add(MONITOR)
    return controller


def _new_zone_queues(context: ControllerContext, metrics: NodeLifecycleMetrics) -> ZoneTaintQueues:
    """Return the queues of nodes that wait for a taint, with the rates of the configuration."""
    config = context.config
    rates = EvictionRates(
        config.node_eviction_rate, config.secondary_node_eviction_rate, config.large_cluster_size_threshold
    )
    return ZoneTaintQueues(rates, config.unhealthy_zone_threshold, context.clock, metrics)


def _pod_task(pod: Pod) -> tuple[NodeLifecycleKey]:
    return (NodeLifecycleKey("pod", pod.metadata.name, pod.metadata.namespace),)


@dataclass(frozen=True, slots=True)
class MonitorSchedule:
    """Seconds between two checks of all nodes, and the queue of the tasks that a check leads to."""

    period: float
    enqueue: Callable[[NodeLifecycleKey], None]


class Reconciler:
    """Dispatches the tasks."""

    def __init__(
        self,
        views: NodeMonitorCaches,
        hands: NodeMonitorWriters,
        monitor: NodeMonitor,
        evictors: ZoneTaintQueues,
        schedule: MonitorSchedule,
    ) -> None:
        self._views = views
        self._hands = hands
        self._monitor = monitor
        self._evictors = evictors
        self._clock = hands.clock
        self._schedule = schedule

    async def reconcile(self, task: NodeLifecycleKey) -> Result | None:
        """Execute one task."""
        match task.kind:
            case "monitor":
                return await self._look_at_all()
            case "zone":
                return await self._do_no_execute_tainting_pass(task.name)
            case "node":
                await self._sync_node_taints_and_labels(task.name)
            case "pod":
                await self._mark_late_pod(task.namespace, task.name)
        return None

    async def _look_at_all(self) -> Result:
        began = self._clock.monotonic()
        await self._monitor.monitor_node_health()
        for zone in self._evictors.zones_with_waiting_nodes():
            self._schedule.enqueue(NodeLifecycleKey("zone", zone))
        return Result(requeue_after=max(0.0, self._schedule.period - (self._clock.monotonic() - began)))

    async def _do_no_execute_tainting_pass(self, zone: str) -> Result | None:
        """Taint the waiting nodes of a zone at its rate."""
        evictor = self._evictors.of(zone)
        while (name := evictor.first) is not None:
            wait = evictor.take(self._clock.monotonic())
            if wait is None:
                return None
            if wait > 0:
                return Result(requeue_after=wait)
            evictor.postpone(name)  # unless it succeeds, others come first
            try:
                tainted = await self._add_eviction_taint(name)
            except BaseException:
                evictor.give_back()
                raise
            if tainted:
                self._hands.instruments.record_tainted(zone)
            evictor.mark_processed(name)
        return None

    async def _add_eviction_taint(self, name: str) -> bool:
        node = self._monitor.newest_node(name)
        return node is not None and await self._hands.writer.write(node, with_eviction_taint(node, self._moment()))

    async def _sync_node_taints_and_labels(self, name: str) -> None:
        node = self._views.nodes.get("", name)
        if node is not None:
            taints = with_condition_taints(node, self._moment())
            await self._hands.writer.write(node, taints, labels_to_reconcile(node))

    async def _mark_late_pod(self, namespace: str, name: str) -> None:
        """Mark a pod as not ready if it was bound to a node that was already silent."""
        pod = self._views.pods.get(namespace, name)
        if pod is not None and self._monitor.status_of(pod.spec.node_name) not in (None, "True"):
            await self._hands.pods.mark_pod_not_ready(pod)

    def _moment(self) -> Time:
        return Time(format_time(self._clock.now()))


def affects_taints_or_labels(old: Node | None, new: Node | None) -> bool:
    """Return True if a change of a node may require other taints or labels; heartbeats don't."""
    if new is None or old is None:
        return new is not None
    return (
        old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or [(one.type, one.status) for one in old.status.conditions]
        != [(one.type, one.status) for one in new.status.conditions]
    )


def was_bound(old: Any, new: Any) -> bool:
    """Return True if the pod was just bound to a node."""
    if new is None or not new.spec.node_name:
        return False
    return old is None or old.spec.node_name != new.spec.node_name
