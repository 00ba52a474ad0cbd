# SPDX-License-Identifier: Apache-2.0
"""Runs as many pods as a ReplicaSet specifies: creates missing ones from its template, deletes surplus ones.

pod, replica set ── wakeups ──▶ queue ──▶ reconciler: claim pods, then scaling ──▶ creates, deletes
                      │                                     status ──▶ one patch of all counts
                      └── expectations: creations and deletions that the cache does not show yet

Watches: replica sets; pods.
Owns: pods that match the selector; orphans are adopted, those that no longer match released.
Writes: creates and deletes pods, patches their owner references; patches the status of replica sets.
Wakes itself: when a ready pod has been so for `minReadySeconds`, and when expected changes stay unseen.
Differs from upstream: for a set of hundreds of pods, changes of its pods within some milliseconds are handled in one
sync; pods that only match the selector of a related set do not count for the spread over nodes.

`replicationcontroller.py` wires the same policy to replication controllers.
"""

from __future__ import annotations

from kubeloop.api.generated.apps_v1 import ReplicaSet, ReplicaSetCondition
from kubeloop.api.selectors import LabelSelector, label_selector_as_selector
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.replicaset.reconciler import ReplicaKind, wire_kind
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.objects.keys import ObjectKey

NAME = "replicaset-controller"


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
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
    """Return the selector of a replica set."""
    return label_selector_as_selector(owner.spec.selector)
