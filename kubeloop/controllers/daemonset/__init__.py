# SPDX-License-Identifier: Apache-2.0
"""Runs one pod of a DaemonSet on every matching node, and updates them to the current template.

set, pod, revision ──▶ queue ──▶ reconciler: claim pods and revisions ──▶ history: the template's revision
node ── affected sets ───▲          │                                         manage: missing and surplus pods (nodes)
pod ──▶ expectations ◀──────────────┤                                         rolling: outdated pods
                                    └── status ◀── creates, deletes ◀─────────┘

Watches: daemon sets; their pods, and orphans; their revisions; nodes that are added, deleted, relabelled or tainted.
Owns: pods and ControllerRevisions that match the selector; orphans are adopted, those that no longer match released.
Writes: creates and deletes pods, and relabels those of duplicate revisions; creates, renumbers, labels and deletes
revisions; patches the status of sets.
Wakes itself: when a ready pod has been so for `minReadySeconds`, when a failed pod may be replaced, and when expected
changes stay unseen.
Differs from upstream: a deleted node enqueues the sets that had or needed a pod there; among several candidates for an
update the order of nodes decides instead of chance; revisions are equal if their templates are, even if their bytes
differ; after a failed pod the controller syncs again when the backoff ends, not after a whole period; for a set of
many pods, changes of its pods within some milliseconds are handled in one sync.
"""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.apps_v1 import DaemonSet
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.daemonset.event_handlers import (
    ExpectationsHandler,
    NodeEventMapper,
    affects_placement,
    is_not_status_only,
    is_status_only,
)
from kubeloop.controllers.daemonset.reconciler import NODES, PODS, REVISIONS, SETS, Reconciler
from kubeloop.controllers.shared.ownership.dependents import Dependents, OwnerEventHandler, concerns_owner
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.expectations import Expectations
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "daemonset-controller"
QUEUE = "daemonset"  # upstream's queue name, as dashboards know it
# A node and its pod cost as much per sync as this many pods of other sets; see `batching`.
SYNC_WEIGHT = 4
# A status change is mostly the echo of the controller's own write.
STATUS_ECHO_DELAY = 0.5


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    informers, telemetry = context.informers, context.telemetry
    sets, all_pods, nodes = informers.for_resource(SETS), informers.for_resource(PODS), informers.for_resource(NODES)
    pods, revisions = Dependents(all_pods, sets), Dependents(informers.for_resource(REVISIONS), sets)
    expectations: Expectations[str] = Expectations(context.clock)
    reconciler = Reconciler(context, pods, revisions, expectations)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=telemetry.registry)
    workers = context.config.concurrent_daemonset_syncs
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=workers, queue=queue, telemetry=telemetry
    )
    sets.add_handler(ResourceEventHandlerFuncs(on_delete=lambda one: expectations.delete(one.metadata.uid)))
    all_pods.add_handler(ExpectationsHandler(expectations))  # before the handlers that enqueue the sets
    controller.watches(sets, own_key, is_not_status_only, resync=context.resync_period())
    controller.watches(sets, own_key, is_status_only, delay=STATUS_ECHO_DELAY)
    controller.add_event_handler(all_pods, OwnerEventHandler(queue, pods, sets, _weight))
    controller.watches(informers.for_resource(REVISIONS), revisions.owner_keys, _is_not_our_creation)
    controller.watches(nodes, NodeEventMapper(sets, all_pods, nodes).keys_of, affects_placement)
    return controller


def _weight(daemon_set: DaemonSet) -> int:
    return SYNC_WEIGHT * daemon_set.status.desired_number_scheduled


def _is_not_our_creation(old: Any, new: Any) -> bool:
    """Ignore new revisions with an owner, which the controller itself created."""
    return concerns_owner(old, new) and not (old is None and new.metadata.owner_references)
