"""Syncs the migrations of one resource: continues the current one, and completes finished ones."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from kubeloop.api import codec
from kubeloop.api.generated.meta_v1 import Condition
from kubeloop.api.generated.storagemigration_v1 import StorageVersionMigration
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.conditions import set_condition
from kubeloop.api.scalars.times import format_time, parse_time
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.shared.status_writer import StatusWriter
from kubeloop.controllers.storage_version_migrator import turns
from kubeloop.controllers.storage_version_migrator.definitions import CrdStatusWriter
from kubeloop.controllers.storage_version_migrator.objects import (
    MigrationImpossible,
    check_verbs,
    find_resource,
    latest_version,
    rewrite,
)
from kubeloop.runtime.controller import Result
from kubeloop.runtime.informer.informer import Informer

NAME: Final = "storage-version-migrator-controller"
BY_RESOURCE: Final = "resource"
# A resource may just have been defined: it is awaited this long after the migration's creation, with this interval.
DISCOVERY_TIMEOUT: Final = timedelta(minutes=1)
DISCOVERY_RETRY_SECONDS: Final = 5.0


class Reconciler:
    """Reconciles migrations by resource."""

    def __init__(self, context: ControllerContext, migrations: Informer) -> None:
        self._client = context.client
        self._clock = context.clock
        self._migrations = migrations
        self._writer = StatusWriter(context.client, migrations.resource)
        self._definitions = CrdStatusWriter(context.client, context.clock)

    async def reconcile(self, resource: str) -> Result | None:
        """Complete finished migrations, and continue or begin one."""
        found = turns.sort_migrations(self._migrations.by_index(BY_RESOURCE, resource))
        for one in found.ended:
            await self._definitions.end(resource, turns.has_succeeded(one))
            await self._tell(one, turns.completed_condition(one.metadata.generation))
        if found.next is not None:
            await self._definitions.begin(resource, found.next.metadata.name)
            return await self._migrate(await self._tell(found.next, turns.running_condition(turns.progress_message())))
        return await self._migrate(found.running) if found.running is not None else None

    async def _migrate(self, migration: StorageVersionMigration) -> Result | None:
        found = await find_resource(self._client, migration.spec.resource)
        if found is None:
            if self._is_new(migration):
                return Result(requeue_after=DISCOVERY_RETRY_SECONDS)
            await self._tell(migration, turns.failed_condition("resource does not exist in discovery"))
            return None
        try:
            migration = await self._with_version(migration, found)
        except MigrationImpossible as error:
            await self._tell(migration, turns.failed_condition(str(error)))
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
        if progress.fatal is not None:
            why = f"{left}/{total} not yet migrated. migration encountered unhandled error: {progress.fatal}"
            running = turns.running_condition(turns.progress_message(left, total))
            await self._tell(migration, running, turns.failed_condition(why))
        elif progress.passing is not None:
            await self._tell(migration, turns.running_condition(turns.progress_message(left, total, progress.passing)))
            raise progress.passing
        else:
            await self._tell(
                migration, turns.running_condition(turns.progress_message(left, total)), turns.succeeded_condition()
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
        written: StorageVersionMigration = await self._writer.write(migration, {"metadata": this_one, "status": status})
        return written

    def _is_new(self, migration: StorageVersionMigration) -> bool:
        made = migration.metadata.creation_timestamp
        return made is not None and parse_time(made) + DISCOVERY_TIMEOUT > self._clock.now()
