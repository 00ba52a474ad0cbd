"""Changes objects by a merge patch, or by replacing the cached object if the account may only update.

Upstream's roles let the endpoints controllers update these objects but not patch them. Only the controller writes
them, so a replacement loses at most fields of a newer server that our types don't know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeloop.api import codec
from kubeloop.api.errors import Forbidden
from kubeloop.api.kinds import Resource
from kubeloop.api.patch import apply_merge_patch
from kubeloop.client import Client


class EndpointsWriter:
    """Changes objects of one kind; after the first Forbidden it no longer tries to patch."""

    def __init__(self, client: Client, resource: Resource) -> None:
        self._client = client
        self._resource = resource
        self._may_patch = True

    async def change(self, obj: Any, patch: dict[str, Any]) -> Any:
        """Apply a merge patch to exactly this state and return the new object; raises `Conflict` if it is outdated."""
        meta = obj.metadata
        wanted = {"uid": meta.uid, "resourceVersion": meta.resource_version, **patch.get("metadata", {})}
        patch = {**patch, "metadata": wanted}
        if self._may_patch:
            try:
                return await self._client.patch(self._resource, meta.name, patch, meta.namespace)
            except Forbidden:
                self._may_patch = False
        changed = apply_merge_patch(codec.to_plain(obj), patch)
        return await self._client.update(codec.from_plain(changed, type(obj)), meta.namespace)


def map_patch(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """Return the merge patch that turns one map into the other."""
    changed: dict[str, str | None] = {key: value for key, value in after.items() if before.get(key) != value}
    return changed | {key: None for key in before if key not in after}
