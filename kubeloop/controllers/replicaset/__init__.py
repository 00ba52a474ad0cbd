"""As many pods run as a ReplicaSet asks for: missing ones are made from its template, surplus ones deleted.

pod, replica set ── wakeups ──▶ queue ──▶ reconciler: claim pods, then scaling ──▶ creates, deletes
                       │                                     status ──▶ one patch of what is counted
                       └── expectations: what was asked for and has not been seen yet

Watches: replica sets; pods.
Owns: pods that match the selector; orphans are adopted, those that no longer match released.
Writes: creates and deletes pods, patches their owner references; patches the status of replica sets.
Wakes itself: when a ready pod has been so for `minReadySeconds`, and when expected changes stay unseen.
Differs from upstream: a set of hundreds of pods is looked at once for all changes of its pods within some
milliseconds; pods that only match the selector of a related set do not count for the spread over nodes.

`replicationcontroller.py` wires the same policy to replication controllers.
"""

from __future__ import annotations

from kubeloop.api.generated.apps_v1 import ReplicaSet, ReplicaSetCondition
from kubeloop.api.selectors import LabelSelector, from_label_selector
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import Context
from kubeloop.controllers.replicaset.reconciler import ReplicaKind, wire_kind
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.objects.keys import ObjectKey

NAME = "replicaset-controller"


def wire(context: Context) -> Controller[ObjectKey]:
    kind = ReplicaKind(
        name=NAME,
        component="replicaset-controller",
        queue="replicaset",
        resource=resource_of_class(ReplicaSet),
        condition=ReplicaSetCondition,
        selector_of=selector_of,
        counts_terminating=True,
    )
    return wire_kind(context, kind, workers=context.config.concurrent_replicaset_syncs)


def selector_of(owner: ReplicaSet) -> LabelSelector:
    return from_label_selector(owner.spec.selector)
