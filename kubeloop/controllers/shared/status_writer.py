"""Writes status by a patch, or by a read and a replacement if the account may only update.

Upstream's roles let most controllers update the status of their kind but not patch it. Only the controller writes it,
so a replacement loses at most status fields of a newer server that our types don't know.
"""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api import codec
from kubeloop.api.errors import Conflict, Forbidden, conflict
from kubeloop.api.kinds import Resource
from kubeloop.api.patch import apply_strategic_merge_patch
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.client import Client

TRIES: Final = 2  # attempts to read and replace; then the caller retries


class StatusWriter:
    """Writes the status of one kind; after the first Forbidden it no longer tries to patch."""

    def __init__(self, client: Client, resource: Resource) -> None:
        self._client = client
        self._resource = resource
        self._may_patch = True

    async def write(self, obj: Any, patch: dict[str, Any]) -> Any:
        """Apply a strategic merge patch and return the object; it may require a `uid` and a `resourceVersion`."""
        if self._may_patch:
            try:
                return await self._patch(obj, patch)
            except Forbidden:
                self._may_patch = False
        for _ in range(TRIES - 1):
            try:
                return await self._replace(obj, patch)
            except Conflict:
                if "resourceVersion" in patch.get("metadata", {}):
                    raise
        return await self._replace(obj, patch)

    async def _patch(self, obj: Any, patch: dict[str, Any]) -> Any:
        name, namespace = obj.metadata.name, obj.metadata.namespace
        return await self._client.patch(
            self._resource, name, patch, namespace, type=STRATEGIC_PATCH, subresource="status"
        )

    async def _replace(self, obj: Any, patch: dict[str, Any]) -> Any:
        resource, name, namespace = self._resource, obj.metadata.name, obj.metadata.namespace
        demanded = patch.get("metadata", {})
        if demanded.get("resourceVersion") == obj.metadata.resource_version:
            fresh = obj  # the server compares versions itself; some accounts may not get the objects that they update
        else:
            fresh = await self._client.get(resource, name, namespace)
        found = {"uid": fresh.metadata.uid, "resourceVersion": fresh.metadata.resource_version}
        if any(found[key] != demanded[key] for key in found if key in demanded):
            raise conflict(resource.group, resource.plural, name)
        changed = apply_strategic_merge_patch(codec.to_plain(fresh), {"status": patch["status"]}, resource.node)
        return await self._client.update(codec.from_plain(changed, type(fresh)), namespace, subresource="status")
