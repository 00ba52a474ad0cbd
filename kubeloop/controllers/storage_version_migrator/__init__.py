# SPDX-License-Identifier: Apache-2.0
"""Rewrites all stored objects of a resource, so that none remains in an old storage version.

migrations of a resource ──▶ turns: one at a time, the oldest first
            └─▶ begin: condition of the CRD ─▶ a resourceVersion ─▶ every older object is written
            └─▶ end: the CRD drops the versions in which no object is stored any more

Watches: storage version migrations.
Owns: nothing.
Writes: migrations' status; every object of a resource, unchanged; of definitions of custom resources the condition
  StorageMigrating and the stored versions.
Wakes itself: while a resource is not served that was requested less than a minute ago.
Differs from upstream: lists the objects page by page, instead of relying on the garbage collector's cache, and so works
  without that too. Writes several objects at a time. A definition whose migration has failed keeps its stored
  versions, where upstream drops them.
"""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.storagemigration_v1 import StorageVersionMigration
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.storage_version_migrator.migration_order import resource_of
from kubeloop.controllers.storage_version_migrator.reconciler import BY_RESOURCE, NAME, Reconciler
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.queue.workqueue import WorkQueue

WORKERS: Final = 5  # as upstream


def wire(context: ControllerContext) -> Controller[str]:
    """Build the controller and register its event handlers."""
    migrations = context.informers.for_resource(resource_of_class(StorageVersionMigration))
    migrations.add_indexer(BY_RESOURCE, resource_of)
    reconciler = Reconciler(context, migrations)
    queue: WorkQueue[str] = WorkQueue(context.clock, name=NAME, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.watches(migrations, resource_of)
    return controller
