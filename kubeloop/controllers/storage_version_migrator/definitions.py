"""What the definition of a custom resource is told of a migration of its objects."""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinition
from kubeloop.api.scalars.times import format_time
from kubeloop.client import Client
from kubeloop.clock import Clock

MANAGER: Final = "migration-runner-controller"  # upstream's name for the owner of these fields
MIGRATING: Final = "StorageMigrating"


class Definitions:
    """Writes to definitions; a resource that has none is built in, and nothing is to be told."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def begin(self, resource: str, migration: str) -> None:
        found = await self._find(resource)
        if found is not None:
            condition = self._condition(found, "True", "MigrationRunning", f"Migration {migration} is running")
            await self._apply(found, {"conditions": [condition]})

    async def end(self, resource: str, succeeded: bool) -> None:
        """The versions that are stored become the one that is written, if the definition is the same as at the
        beginning: else objects may have been written in yet another one meanwhile.
        """
        found = await self._find(resource)
        if found is None:
            return
        unchanged = is_unchanged(found)
        reason = "MigrationSucceeded" if succeeded else "MigrationFailed"
        status: dict[str, Any] = {
            "conditions": [self._condition(found, "False", reason, ending_message(succeeded, unchanged))]
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
        """Only if nothing has changed since it was looked at; if so this is a conflict, and tried again."""
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
    """Whether a definition is the one that the running migration has begun with."""
    return any(
        one.type == MIGRATING and one.observed_generation == found.metadata.generation
        for one in found.status.conditions or ()
    )


def ending_message(succeeded: bool, unchanged: bool) -> str:
    if not succeeded:
        return "The migration has failed"
    if unchanged:
        return "The migration has succeeded and the stored versions have been updated"
    return "The migration has succeeded but the stored versions have not been updated due to a generation mismatch"
