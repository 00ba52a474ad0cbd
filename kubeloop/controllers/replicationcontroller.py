# SPDX-License-Identifier: Apache-2.0
"""Runs as many pods as a ReplicationController specifies, by the policy of replica sets.

Watches: replication controllers; pods.
Owns: pods that match the selector; orphans are adopted, those that no longer match released.
Writes: creates and deletes pods, patches their owner references; patches the status of replication controllers.
Wakes itself: when a ready pod has been so for `minReadySeconds`, and when expected changes stay unseen.
Differs from upstream: as replica sets do.
"""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import ReplicationController, ReplicationControllerCondition
from kubeloop.api.selectors import LabelSelector, selector_from_set
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.replicaset.reconciler import ReplicaKind, wire_kind
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.objects.keys import ObjectKey

NAME = "replicationcontroller-controller"


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    kind = ReplicaKind(
        name=NAME,
        component="replication-controller",
        queue="replicationmanager",
        resource=resource_of_class(ReplicationController),
        condition=ReplicationControllerCondition,
        selector_of=selector_of,
        counts_terminating=False,  # its status has no such field
    )
    return wire_kind(context, kind, workers=context.config.concurrent_rc_syncs)


def selector_of(owner: ReplicationController) -> LabelSelector:
    """Return the selector of a replication controller."""
    return selector_from_set(owner.spec.selector)
