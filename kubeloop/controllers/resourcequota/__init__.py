"""A quota's status says what it allows, and how much of that is used at present.

kinds, by discovery ──▶ monitors: one informer each ──▶ something is gone, or takes less
                              ▲                              ▼
quotas ────────────────────▶ count: each kind's meter, within the quota's scopes ──▶ status

Watches: quotas; every namespaced kind that can be created and deleted: pods, services, volume claims and claims of
    devices as a whole, of others their metadata; definitions of kinds.
Owns: nothing.
Writes: quotas' status.
Wakes itself: every --resource-quota-sync-period for each quota; every 30 seconds to ask the server for its kinds, and
    when definitions change; ten seconds after a quota was charged.
Differs from upstream: a quota that was charged is counted once more soon after, since what was being created while it
    was counted may have been missed, or never came to be; upstream waits for the next period. A quota of a kind that
    was not there yet is counted as soon as the kind is. Every update that changes what an object takes counts, not
    those of chosen fields. Quotas that lack usage come first in one queue, instead of having one of their own.
"""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import ResourceQuota
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import Context
from kubeloop.controllers.resourcequota.reconciler import KINDS, Reconciler
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "resourcequota-controller"
QUEUE = "resourcequota_primary"  # upstream's, as dashboards know it


def wire(context: Context) -> Controller[ObjectKey]:
    quotas = context.informers.of(resource_of_class(ResourceQuota))
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
    controller.listens_to(quotas, reconciler, resync=config.resource_quota_sync_period)
    queue.add(KINDS)
    return controller
