# SPDX-License-Identifier: Apache-2.0
"""Runs a StatefulSet's pods with stable names and claims; creates, updates and deletes them by ordinal.

set, pod, claim ──▶ queue ──▶ reconciler: claim pods and revisions ──▶ history: current and update revision
                                   │                                        plan: next steps (rolling, claims)
                                   └── status ◀── members: creates, repairs, deletes ◀──┘

Watches: stateful sets; their pods, and orphans; their revisions; deletions of claims.
Owns: pods called `<set>-<ordinal>`, and ControllerRevisions, that match the selector: orphans are adopted, those that
no longer match are released. Claims only if the retention policy says so.
Writes: creates and deletes pods, patches their labels; creates claims, patches their owners; creates, renumbers and
deletes revisions; patches the status of sets.
Wakes itself: when a ready pod has been so for `minReadySeconds`.
Differs from upstream: a claim is created with its owner, and a deleted claim enqueues the set that waits for it; a pod
is deleted only if its UID is the one that was evaluated; revisions are equal if their templates are, even if their
bytes differ; `Recreate` is refused, as by upstream with its gate's default; for a set of many pods, changes of its
pods within some milliseconds are handled in one sync.
"""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.core_v1 import PersistentVolumeClaim
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.shared.ownership.dependents import Dependents, OwnerEventHandler, concerns_owner
from kubeloop.controllers.statefulset.claims import is_claim_of
from kubeloop.controllers.statefulset.identity import replicas_of
from kubeloop.controllers.statefulset.metrics import register_unavailable_metrics
from kubeloop.controllers.statefulset.reconciler import CLAIMS, PODS, REVISIONS, SETS, Reconciler
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "statefulset-controller"
QUEUE = "statefulset"  # upstream's queue name, as dashboards know it


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    informers, telemetry = context.informers, context.telemetry
    sets = informers.for_resource(SETS)
    pods, revisions = (
        Dependents(informers.for_resource(PODS), sets),
        Dependents(informers.for_resource(REVISIONS), sets),
    )
    register_unavailable_metrics(telemetry.registry, sets)
    reconciler = Reconciler(context, sets, pods, revisions)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=telemetry.registry)
    workers = context.config.concurrent_statefulset_syncs
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=workers, queue=queue, telemetry=telemetry
    )
    controller.watches(sets, own_key, resync=context.resync_period())
    controller.add_event_handler(informers.for_resource(PODS), OwnerEventHandler(queue, pods, sets, replicas_of))
    controller.watches(informers.for_resource(REVISIONS), revisions.owner_keys, _is_orphaned_or_gone)
    controller.watches(informers.for_resource(CLAIMS), lambda claim: _sets_of_claim(sets, claim), _is_gone)
    return controller


def _sets_of_claim(sets: Informer, claim: PersistentVolumeClaim) -> list[ObjectKey]:
    near = sets.list(claim.metadata.namespace)
    return [key_of(one) for one in near if is_claim_of(one, claim.metadata.name)]


def _is_orphaned_or_gone(old: Any, new: Any) -> bool:
    """Ignore revisions that the controller itself writes."""
    return new is None or (concerns_owner(old, new) and not new.metadata.owner_references)


def _is_gone(_: Any, new: Any) -> bool:
    return new is None
