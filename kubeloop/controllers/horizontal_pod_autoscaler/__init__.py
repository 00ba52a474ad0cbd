# SPDX-License-Identifier: Apache-2.0
"""Scales targets to the number of pods that the metrics require, within the bounds and rates of the autoscaler.

key ─▶ reconciler ─▶ scale_target: current scale ─▶ proposals: replicas for each metric ◀─ metrics: the metrics APIs
              ▲                                  replica_calculator: from usage and requests (pure)
              └──── resize ◀── behavior: windows, rates and bounds (pure, with recorded history)

Watches: autoscalers, pods.
Owns: nothing.
Writes: the scale of targets; the status of autoscalers.
Wakes itself: every --horizontal-pod-autoscaler-sync-period, also after failures.
Differs from upstream: of several autoscalers that share pods, the message names this one and another in their order;
a failed status write is retried soon, not after a period.
"""

from __future__ import annotations

from kubeloop.api.generated.autoscaling_v2 import HorizontalPodAutoscaler
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.horizontal_pod_autoscaler.reconciler import Reconciler
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "horizontal-pod-autoscaler-controller"
QUEUE = "horizontalpodautoscaler"  # upstream's queue name, as dashboards know it


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    autoscalers = context.informers.for_resource(resource_of_class(HorizontalPodAutoscaler))
    pods = context.informers.for_resource(resource_of_class(Pod))
    reconciler = Reconciler(context, autoscalers, pods)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    workers = context.config.concurrent_horizontal_pod_autoscaler_syncs
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=workers, queue=queue, telemetry=context.telemetry
    )
    controller.watches(autoscalers, own_key, _is_changed)
    controller.require_synced(pods)
    return controller


def _is_changed(old: HorizontalPodAutoscaler | None, new: HorizontalPodAutoscaler | None) -> bool:
    """Ignore changes of the status, which don't justify reading the metrics early."""
    return old is None or new is None or old.spec != new.spec
