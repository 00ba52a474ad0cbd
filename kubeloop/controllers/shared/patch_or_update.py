"""Changes objects by a merge patch, or by a read and a replacement if the account may only update.

Upstream's roles let some controllers update their objects but not patch them.
"""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api import codec
from kubeloop.api.errors import Conflict, Forbidden, conflict
from kubeloop.api.kinds import Resource
from kubeloop.api.patch import apply_merge_patch
from kubeloop.api.requests import MERGE_PATCH
from kubeloop.client import Client

TRIES: Final = 2  # attempts to read and replace; then the caller retries
_DEMANDS: Final = ("uid", "resourceVersion")


class PatchOrUpdate:
    """Patches objects like a client; after the first Forbidden for a kind it no longer tries to patch that kind."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._only_updates: set[tuple[Resource, str]] = set()

    async def patch(
        self,
        what: Resource,
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        type: str = MERGE_PATCH,
        subresource: str = "",
    ) -> Any:
        """Apply a merge patch and return the object; its metadata may require a `uid` and a `resourceVersion`."""
        if type != MERGE_PATCH:
            raise ValueError(f"only merge patches can be replaced by an update, not {type}")
        kind = (what, subresource)
        if kind not in self._only_updates:
            try:
                return await self._client.patch(what, name, patch, namespace, type=type, subresource=subresource)
            except Forbidden:
                self._only_updates.add(kind)
        for _ in range(TRIES - 1):
            try:
                return await self._replace(what, name, patch, namespace, subresource)
            except Conflict:
                if "resourceVersion" in patch.get("metadata", {}):
                    raise
        return await self._replace(what, name, patch, namespace, subresource)

    async def _replace(self, what: Resource, name: str, patch: Any, namespace: str, subresource: str) -> Any:
        fresh = await self._client.get(what, name, namespace)
        found = {"uid": fresh.metadata.uid, "resourceVersion": fresh.metadata.resource_version}
        demanded = patch.get("metadata", {})
        if any(found[key] != demanded[key] for key in found if key in demanded):
            raise conflict(what.group, what.plural, name)
        wanted = {key: value for key, value in demanded.items() if key not in _DEMANDS}
        changes = {**patch, "metadata": wanted} if wanted else {k: v for k, v in patch.items() if k != "metadata"}
        changed = apply_merge_patch(codec.to_plain(fresh), changes)
        # `type` is the name of the parameter that says how to patch, as everywhere
        kind = fresh.__class__
        return await self._client.update(codec.from_plain(changed, kind), namespace, subresource=subresource)
