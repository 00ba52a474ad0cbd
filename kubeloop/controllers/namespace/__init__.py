# SPDX-License-Identifier: Apache-2.0
"""Empties a namespace that is being deleted, pods first and then every other kind, and removes its finalizer.

namespace ──▶ kinds, by discovery ──▶ pods ──▶ all the rest, concurrently ──▶ conditions ──▶ finalizer
                                             └─ content remains: enqueued when it is gone

Watches: namespaces; while content remains in one that is being deleted, the metadata of its kind.
Owns: everything in the namespace.
Writes: deletes objects; the namespace's status (phase and conditions) and, by its finalize subresource, its finalizers.
Wakes itself: after half of the time that the remaining content is expected to take.
Differs from upstream: is enqueued as soon as the remaining content is gone. Begins at once; with several API servers
  it waits only before its last step until all of them must know of the deletion, 5 seconds. Sends no delete requests
  for kinds without objects. Conditions report remaining pods too.
"""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.core_v1 import Namespace
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.namespace.content import NamespaceContent
from kubeloop.controllers.namespace.deleter import NamespacedResourcesDeleter
from kubeloop.controllers.namespace.remaining_content import RemainingContentTracker
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate
from kubeloop.runtime.queue.rate_limiters import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    MaxOfRateLimiter,
)
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "namespace-controller"
QUEUE = "namespace"
LONGEST_DELAY = 60.0  # as upstream: a namespace that cannot be emptied is retried every minute


def wire(context: ControllerContext) -> Controller[str]:
    """Build the controller and register its event handlers."""
    namespaces = context.informers.for_resource(resource_of_class(Namespace))
    clock, client = context.clock, context.client
    limiter = MaxOfRateLimiter[str](
        ItemExponentialFailureRateLimiter[str](longest=LONGEST_DELAY), BucketRateLimiter(clock)
    )
    queue: WorkQueue[str] = WorkQueue(clock, name=QUEUE, limiter=limiter, registry=context.telemetry.registry)
    remains = RemainingContentTracker(context.informers, queue.add)
    deleter = NamespacedResourcesDeleter(client, NamespaceContent(client, clock), PatchOrUpdate(client), remains, clock)
    workers = context.config.concurrent_namespace_syncs
    controller = Controller(
        NAME, deleter.reconcile, clock, workers=workers, queue=queue, telemetry=context.telemetry
    )  # fmt: skip
    controller.watches(
        namespaces, lambda one: (one.metadata.name,), _needs_sync, resync=context.config.namespace_sync_period
    )
    return controller


def _needs_sync(old: Any, namespace: Any) -> bool:
    """Return True if there is new work; ignores the status that this controller itself writes."""
    if namespace is None or namespace.metadata.deletion_timestamp is None:
        return False
    return (
        old is None
        or old.metadata.deletion_timestamp is None
        or old.spec.finalizers != namespace.spec.finalizers
        or old.status.phase != namespace.status.phase
    )
