# SPDX-License-Identifier: Apache-2.0
"""Reports how many pods each disruption budget allows to evict; resets announced evictions that never happened.

pod ── wakeups ──▶ queue ──▶ reconciler: its budget ── scales: expected number of pods ──▶ budget: status
              └─────▶ stale_targets: announced but not evicted ──▶ condition set to False

Watches: disruption budgets; pods; and, to know their scale, deployments, replica sets, replication controllers and
stateful sets. For other owners it reads the scale subresource.
Owns: nothing.
Writes: the status of disruption budgets, with a precondition on their version, because evictions write it too; the
status of pods.
Wakes itself: two minutes after an eviction was allowed, to check if the pod is gone.
Differs from upstream: all budgets that match a pod are updated, not just one of them; a budget that a relabelled pod no
longer matches is synced too; failed requests are retried.
"""

from __future__ import annotations

from kubeloop.api.generated.apps_v1 import Deployment, ReplicaSet, StatefulSet
from kubeloop.api.generated.core_v1 import Pod, ReplicationController
from kubeloop.api.generated.policy_v1 import PodDisruptionBudget
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.disruption.event_handlers import BudgetPodHandler, DisruptionKey, budget_key
from kubeloop.controllers.disruption.reconciler import Reconciler
from kubeloop.controllers.disruption.scales import ScaleFinder
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "disruption-controller"
COMPONENT = "controllermanager"  # source component of upstream's events
QUEUE = "disruption"


def wire(context: ControllerContext) -> Controller[DisruptionKey]:
    """Build the controller and register its event handlers."""
    budgets = context.informers.for_resource(resource_of_class(PodDisruptionBudget))
    pods = context.informers.for_resource(resource_of_class(Pod))
    kinds = (Deployment, ReplicaSet, StatefulSet, ReplicationController)
    workloads = [context.informers.for_resource(resource_of_class(kind)) for kind in kinds]
    recorder = context.recorder.with_component(COMPONENT)
    reconciler = Reconciler(context, budgets, pods, ScaleFinder(context.client, workloads), recorder)
    registry = context.telemetry.registry
    queue: WorkQueue[DisruptionKey] = WorkQueue(context.clock, name=QUEUE, registry=registry)
    workers = context.config.concurrent_disruption_syncs
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=workers, queue=queue, telemetry=context.telemetry
    )
    for one in workloads:
        controller.require_synced(one)  # a change of their scale changes pods
    controller.watches(budgets, budget_key, resync=context.resync_period())
    controller.add_event_handler(pods, BudgetPodHandler(queue, budgets, recorder))
    return controller
