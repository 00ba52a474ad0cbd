# SPDX-License-Identifier: Apache-2.0
"""Selects the next migration of a resource, and builds conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kubeloop.api.generated.meta_v1 import Condition
from kubeloop.api.generated.storagemigration_v1 import StorageVersionMigration
from kubeloop.api.meta.conditions import is_true

RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"


class MigrationsByState(NamedTuple):
    """Migrations of one resource by state."""

    ended: list[StorageVersionMigration]  # but still marked as running
    running: StorageVersionMigration | None
    next: StorageVersionMigration | None  # to be started, if none is running


def sort_migrations(migrations: Sequence[StorageVersionMigration]) -> MigrationsByState:
    """Sort the migrations of one resource by state."""
    open_ones = [one for one in migrations if not has_ended(one)]
    running = next((one for one in sorted(open_ones, key=_age) if is_running(one)), None)
    waiting = sorted((one for one in open_ones if not is_running(one)), key=_age)
    return MigrationsByState(
        [one for one in migrations if has_ended(one) and is_running(one)],
        running,
        waiting[0] if running is None and waiting else None,
    )


def has_ended(migration: StorageVersionMigration) -> bool:
    """Return True if the migration has succeeded or failed."""
    return has_succeeded(migration) or is_true(migration.status.conditions, FAILED)


def has_succeeded(migration: StorageVersionMigration) -> bool:
    """Return True if the migration has succeeded."""
    return is_true(migration.status.conditions, SUCCEEDED)


def is_running(migration: StorageVersionMigration) -> bool:
    """Return True if the migration has the condition Running."""
    return is_true(migration.status.conditions, RUNNING)


def running_condition(message: str) -> Condition:
    """Build the condition Running."""
    return Condition(type=RUNNING, status="True", reason="MigrationRunning", message=message)


def completed_condition(generation: int) -> Condition:
    """Build the condition that ends Running."""
    return Condition(
        type=RUNNING,
        status="False",
        reason="MigrationCompleted",
        message="Migration completed",
        observed_generation=generation,
    )


def succeeded_condition() -> Condition:
    """Build the condition Succeeded."""
    return Condition(
        type=SUCCEEDED, status="True", reason="StorageVersionMigrationSucceeded", message="Migration completed"
    )


def failed_condition(message: str) -> Condition:
    """Build the condition Failed."""
    return Condition(type=FAILED, status="True", reason="StorageVersionMigrationFailed", message=message)


def progress_message(left: int | None = None, total: int = 0, trouble: object = "") -> str:
    """Return the message about the progress of a migration."""
    message = "The migration is running"
    if left is not None and total > 0:
        message += f", {left}/{total} objects not yet migrated" if left else f", {total} objects verified migrated"
    return f"{message}; transient error: {trouble}" if trouble else message


def resource_of(migration: StorageVersionMigration) -> tuple[str]:
    """Return the resource of a migration, such as `deployments.apps` or `pods`."""
    wanted = migration.spec.resource
    return (f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource,)


def _age(migration: StorageVersionMigration) -> tuple[str, str]:
    return migration.metadata.creation_timestamp or "", migration.metadata.name
