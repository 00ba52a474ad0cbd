"""Updates the status of a CustomResourceDefinition at the begin and end of a migration."""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinition
from kubeloop.api.scalars.times import format_time
from kubeloop.client import Client
from kubeloop.clock import Clock

MANAGER: Final = "migration-runner-controller"  # upstream's field manager
MIGRATING: Final = "StorageMigrating"


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
