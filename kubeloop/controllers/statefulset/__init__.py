"""A StatefulSet's pods have lasting names and claims, and come, are updated and go in the order of their ordinals.

set, pod, claim ──▶ queue ──▶ reconciler: claim pods and revisions ──▶ history: from which revision to which?
                                  │                                        plan: what is next? (rolling, claims)
                                  └── status ◀── members: creates, repairs, deletes ◀──┘

Watches: stateful sets; their pods, and orphans; their revisions; claims that go.
Owns: pods called `<set>-<ordinal>`, and ControllerRevisions, that match the selector: orphans are adopted, what no
longer matches is released. Claims only if the retention policy says so.
Writes: creates and deletes pods, patches their labels; creates claims, patches their owners; creates, renumbers and
deletes revisions; patches the status of sets.
Wakes itself: when a ready pod has been so for `minReadySeconds`.
Differs from upstream: a claim has its owner from the moment it is made, and one that goes wakes the set that waits for
it; a pod is deleted only if it is still the one that was looked at; revisions are equal if their templates are,
however they are written; `Recreate` is refused, as by upstream with its gate's default; a set of many pods is looked
at once for all changes of its pods within some milliseconds.
"""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.core_v1 import PersistentVolumeClaim
from kubeloop.controllers.app.context import Context
from kubeloop.controllers.shared.ownership.dependents import Dependents, Wakeups, concerns_owner
from kubeloop.controllers.statefulset.claims import is_claim_of
from kubeloop.controllers.statefulset.identity import replicas_of
from kubeloop.controllers.statefulset.instruments import count_unavailable
from kubeloop.controllers.statefulset.reconciler import CLAIMS, PODS, REVISIONS, SETS, Reconciler
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "statefulset-controller"
QUEUE = "statefulset"  # upstream's, as dashboards know it


def wire(context: Context) -> Controller[ObjectKey]:
    informers, telemetry = context.informers, context.telemetry
    sets = informers.of(SETS)
    pods, revisions = Dependents(informers.of(PODS), sets), Dependents(informers.of(REVISIONS), sets)
    count_unavailable(telemetry.registry, sets)
    reconciler = Reconciler(context, sets, pods, revisions)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=telemetry.registry)
    workers = context.config.concurrent_statefulset_syncs
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=workers, queue=queue, telemetry=telemetry
    )
    controller.watches(sets, own_key, resync=context.resync_period())
    controller.listens_to(informers.of(PODS), Wakeups(queue, pods, sets, replicas_of))
    controller.watches(informers.of(REVISIONS), revisions.keys_of, _is_orphaned_or_gone)
    controller.watches(informers.of(CLAIMS), lambda claim: _sets_of_claim(sets, claim), _is_gone)
    return controller


def _sets_of_claim(sets: Informer, claim: PersistentVolumeClaim) -> list[ObjectKey]:
    near = sets.list(claim.metadata.namespace)
    return [key_of(one) for one in near if is_claim_of(one, claim.metadata.name)]


def _is_orphaned_or_gone(old: Any, new: Any) -> bool:
    """Revisions that the loop itself writes tell it nothing."""
    return new is None or (concerns_owner(old, new) and not new.metadata.owner_references)


def _is_gone(_: Any, new: Any) -> bool:
    return new is None
