"""All stored objects of a resource are written once more, so that none is left in a version of former times.

migrations of a resource ──▶ turns: one at a time, the oldest first
                               └─▶ begin: the definition is told ─▶ a version ─▶ every older object is written
                               └─▶ end: the definition forgets the versions that nothing is stored in any more

Watches: storage version migrations.
Owns: nothing.
Writes: migrations' status; every object of a resource, unchanged; of definitions of custom resources the condition
    StorageMigrating and the versions that are stored.
Wakes itself: while a resource is not served that was asked for less than a minute ago.
Differs from upstream: lists the objects anew, page by page, instead of relying on the garbage collector's cache; so it
    does its work without that too. Writes several objects at a time. A definition whose migration has failed keeps the
    versions that it says are stored, where upstream lets it forget them.
"""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.storagemigration_v1 import StorageVersionMigration
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import Context
from kubeloop.controllers.storage_version_migrator.reconciler import BY_RESOURCE, NAME, Reconciler
from kubeloop.controllers.storage_version_migrator.turns import resource_named
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.queue.workqueue import WorkQueue

WORKERS: Final = 5  # upstream's


def wire(context: Context) -> Controller[str]:
    migrations = context.informers.of(resource_of_class(StorageVersionMigration))
    migrations.add_indexer(BY_RESOURCE, resource_named)
    reconciler = Reconciler(context, migrations)
    queue: WorkQueue[str] = WorkQueue(context.clock, name=NAME, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    controller.watches(migrations, resource_named)
    return controller
