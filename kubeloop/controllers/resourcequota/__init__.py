# SPDX-License-Identifier: Apache-2.0
"""Maintains the status of quotas: the limits and the current usage.

kinds, by discovery ──▶ monitors: one informer each ──▶ an object is gone, or uses less
                             ▲                              ▼
quotas ────────────────────▶ count: each kind's meter, within the quota's scopes ──▶ status

Watches: quotas; every namespaced kind that can be created and deleted: pods, services, volume claims and resource
  claims as a whole, of others their metadata; definitions of kinds.
Owns: nothing.
Writes: quotas' status.
Wakes itself: every --resource-quota-sync-period for each quota; every 30 seconds to discover the server's kinds, and
  when definitions change; ten seconds after a quota was charged.
Differs from upstream: a charged quota is recounted soon after, since objects that were being created during the count
  may have been missed or never created; upstream waits for the next period. A quota of a kind that did not exist yet
  is counted as soon as the kind does. Every update that changes an object's usage counts, not only those of certain
  fields. Quotas without usage come first in one queue, instead of having a queue of their own.
"""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import ResourceQuota
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.resourcequota.reconciler import KINDS, Reconciler
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "resourcequota-controller"
QUEUE = "resourcequota_primary"  # upstream's queue name, as dashboards know it


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    quotas = context.informers.for_resource(resource_of_class(ResourceQuota))
    clock, config = context.clock, context.config
    queue: WorkQueue[ObjectKey] = WorkQueue(clock, name=QUEUE, registry=context.telemetry.registry)
    reconciler = Reconciler(context, quotas, queue)
    controller = Controller(
        NAME,
        reconciler.reconcile,
        clock,
        workers=config.concurrent_resource_quota_syncs,
        queue=queue,
        telemetry=context.telemetry,
    )
    controller.add_event_handler(quotas, reconciler, resync=config.resource_quota_sync_period)
    queue.add(KINDS)
    return controller
