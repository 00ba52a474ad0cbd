# SPDX-License-Identifier: Apache-2.0
"""Syncs the migrations of one resource: continues the current one, and completes finished ones."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from kubeloop.api import codec
from kubeloop.api.errors import NotFound
from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinition
from kubeloop.api.generated.meta_v1 import Condition
from kubeloop.api.generated.storagemigration_v1 import StorageVersionMigration
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.conditions import set_condition
from kubeloop.api.scalars.times import format_time, parse_time
from kubeloop.api.scalars.wire import Time
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.storage_version_migrator import migration_order
from kubeloop.controllers.storage_version_migrator.object_rewriter import (
    MigrationImpossible,
    check_verbs,
    find_resource,
    latest_version,
    rewrite,
)
from kubeloop.runtime.controller import Result
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate

NAME: Final = "storage-version-migrator-controller"
BY_RESOURCE: Final = "resource"
# A resource may just have been defined: it is awaited this long after the migration's creation, with this interval.
DISCOVERY_TIMEOUT: Final = timedelta(minutes=1)
DISCOVERY_RETRY_SECONDS: Final = 5.0
MANAGER: Final = "migration-runner-controller"  # upstream's field manager
MIGRATING: Final = "StorageMigrating"


class Reconciler:
    """Reconciles migrations by resource."""

    def __init__(self, context: ControllerContext, migrations: Informer) -> None:
        self._client = context.client
        self._clock = context.clock
        self._migrations = migrations
        self._writer = PatchOrUpdate(context.client)
        self._definitions = CrdStatusWriter(context.client, context.clock)

    async def reconcile(self, resource: str) -> Result | None:
        """Complete finished migrations, and continue or begin one."""
        found = migration_order.sort_migrations(self._migrations.by_index(BY_RESOURCE, resource))
        for one in found.ended:
            await self._definitions.end(resource, migration_order.has_succeeded(one))
            await self._tell(one, migration_order.completed_condition(one.metadata.generation))
        if found.next is not None:
            await self._definitions.begin(resource, found.next.metadata.name)
            return await self._migrate(
                await self._tell(found.next, migration_order.running_condition(migration_order.progress_message()))
            )
        return await self._migrate(found.running) if found.running is not None else None

    async def _migrate(self, migration: StorageVersionMigration) -> Result | None:
        found = await find_resource(self._client, migration.spec.resource)
        if found is None:
            if self._is_new(migration):
                return Result(requeue_after=DISCOVERY_RETRY_SECONDS)
            await self._tell(migration, migration_order.failed_condition("resource does not exist in discovery"))
            return None
        try:
            migration = await self._with_version(migration, found)
        except MigrationImpossible as error:
            await self._tell(migration, migration_order.failed_condition(str(error)))
            return None
        await self._rewrite(migration, found)
        return None

    async def _with_version(self, migration: StorageVersionMigration, found: Resource) -> StorageVersionMigration:
        """Return the migration with the resourceVersion up to which objects are rewritten."""
        if migration.status.resource_version:
            return migration
        check_verbs(found)
        version = await latest_version(self._client, found)
        return await self._write(migration, {"resourceVersion": version})

    async def _rewrite(self, migration: StorageVersionMigration, found: Resource) -> None:
        progress = await rewrite(self._client, found, migration.status.resource_version, NAME)
        left, total = progress.left, progress.total
        if progress.fatal_error is not None:
            why = f"{left}/{total} not yet migrated. migration encountered unhandled error: {progress.fatal_error}"
            running = migration_order.running_condition(migration_order.progress_message(left, total))
            await self._tell(migration, running, migration_order.failed_condition(why))
        elif progress.transient_error is not None:
            await self._tell(
                migration,
                migration_order.running_condition(
                    migration_order.progress_message(left, total, progress.transient_error)
                ),
            )
            raise progress.transient_error
        else:
            await self._tell(
                migration,
                migration_order.running_condition(migration_order.progress_message(left, total)),
                migration_order.succeeded_condition(),
            )

    async def _tell(self, migration: StorageVersionMigration, *news: Condition) -> StorageVersionMigration:
        conditions = migration.status.conditions
        for one in news:
            conditions = set_condition(conditions, one, Time(format_time(self._clock.now())))
        if conditions is migration.status.conditions:
            return migration
        return await self._write(migration, {"conditions": [codec.to_plain(one) for one in conditions]})

    async def _write(self, migration: StorageVersionMigration, status: dict[str, Any]) -> StorageVersionMigration:
        meta = migration.metadata
        this_one = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        patch = {"metadata": this_one, "status": status}
        written: StorageVersionMigration = await self._writer.patch_status(self._migrations.resource, migration, patch)
        return written

    def _is_new(self, migration: StorageVersionMigration) -> bool:
        made = migration.metadata.creation_timestamp
        return made is not None and parse_time(made) + DISCOVERY_TIMEOUT > self._clock.now()


class CrdStatusWriter:
    """Writes the status of definitions; a resource without one is built in and needs no update."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def begin(self, resource: str, migration: str) -> None:
        """Set the condition StorageMigrating."""
        found = await self._find(resource)
        if found is not None:
            condition = self._condition(found, "True", "MigrationRunning", f"Migration {migration} is running")
            await self._apply(found, {"conditions": [condition]})

    async def end(self, resource: str, succeeded: bool) -> None:
        """Clear the condition; after success the stored versions are reduced to the current one.

        That requires an unchanged definition, since otherwise objects may have been written in yet another version.
        """
        found = await self._find(resource)
        if found is None:
            return
        unchanged = is_unchanged(found)
        reason = "MigrationSucceeded" if succeeded else "MigrationFailed"
        status: dict[str, Any] = {
            "conditions": [self._condition(found, "False", reason, completion_message(succeeded, unchanged))]
        }
        if unchanged and succeeded:
            status["storedVersions"] = [one.name for one in found.spec.versions or () if one.storage][:1]
        await self._apply(found, status)

    async def _find(self, resource: str) -> CustomResourceDefinition | None:
        try:
            found: CustomResourceDefinition = await self._client.get(CustomResourceDefinition, resource)
        except NotFound:
            return None
        return found

    async def _apply(self, found: CustomResourceDefinition, status: dict[str, Any]) -> None:
        """Apply the status to the evaluated version; a change causes a conflict and a retry."""
        meta = {"name": found.metadata.name, "resourceVersion": found.metadata.resource_version}
        applied = {"apiVersion": found.api_version, "kind": found.kind, "metadata": meta, "status": status}
        await self._client.apply(applied, manager=MANAGER, force=True, subresource="status")

    def _condition(self, found: CustomResourceDefinition, status: str, reason: str, message: str) -> dict[str, Any]:
        return {
            "type": MIGRATING,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": format_time(self._clock.now()),
            "observedGeneration": found.metadata.generation,
        }


def is_unchanged(found: CustomResourceDefinition) -> bool:
    """Return True if the definition is the one with which the running migration began."""
    return any(
        one.type == MIGRATING and one.observed_generation == found.metadata.generation
        for one in found.status.conditions or ()
    )


def completion_message(succeeded: bool, unchanged: bool) -> str:
    """Return the message of the condition at the end."""
    if not succeeded:
        return "The migration has failed"
    if unchanged:
        return "The migration has succeeded and the stored versions have been updated"
    return "The migration has succeeded but the stored versions have not been updated due to a generation mismatch"
