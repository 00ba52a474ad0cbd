# SPDX-License-Identifier: Apache-2.0
"""Changes objects by a patch, or by a replacement if the account may only update.

Upstream's roles let many controllers update objects or their status but not patch them. Only the controller writes
these fields, so a replacement loses at most fields of a newer server that our types don't know.

The conflict policy is the same for both ways. A patch may require a `uid` and a `resourceVersion` in its metadata; if
the object has others, `Conflict` is raised. Without a required version, a replacement that another client's write
precedes is repeated once on the new state; then the caller retries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kubeloop.api import codec
from kubeloop.api.errors import Conflict, Forbidden, conflict
from kubeloop.api.kinds import Resource
from kubeloop.api.patch import apply_merge_patch, apply_strategic_merge_patch
from kubeloop.api.requests import MERGE_PATCH, STRATEGIC_PATCH
from kubeloop.client import Client

TRIES: Final = 2  # attempts to read and replace; then the caller retries
_REQUIREMENTS: Final = ("uid", "resourceVersion")


class _PatchCall(NamedTuple):
    """Patch of one object, and the object as the caller knows it."""

    resource: Resource
    name: str
    patch: Any
    namespace: str
    type: str
    subresource: str = ""
    cached: Any = None

    @property
    def metadata(self) -> dict[str, str]:
        """Metadata that the patch requires or changes."""
        found: dict[str, str] = self.patch.get("metadata", {})
        return found


class PatchOrUpdate:
    """Patches objects like a client; after the first Forbidden for a kind it no longer tries to patch that kind."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._only_updates: set[tuple[Resource, str]] = set()  # resources and subresources

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
            raise ValueError(f"only a merge patch can be replaced by an update, not {type}")
        return await self._write(_PatchCall(what, name, patch, namespace, type, subresource))

    async def patch_unchanged(self, resource: Resource, obj: Any, patch: dict[str, Any]) -> Any:
        """Apply a merge patch to exactly this state and return the new object; raises `Conflict` if it is outdated."""
        meta = obj.metadata
        wanted = {"uid": meta.uid, "resourceVersion": meta.resource_version, **patch.get("metadata", {})}
        call = _PatchCall(resource, meta.name, {**patch, "metadata": wanted}, meta.namespace, MERGE_PATCH, cached=obj)
        return await self._write(call)

    async def patch_status(self, resource: Resource, obj: Any, patch: dict[str, Any]) -> Any:
        """Apply a strategic merge patch to the status; it may require a `uid` and a `resourceVersion`."""
        meta = obj.metadata
        return await self._write(
            _PatchCall(resource, meta.name, patch, meta.namespace, STRATEGIC_PATCH, "status", cached=obj)
        )

    async def _write(self, call: _PatchCall) -> Any:
        resource, name, patch, namespace, type, subresource, _ = call
        if not self._only_updates or (resource, subresource) not in self._only_updates:
            try:
                return await self._client.patch(resource, name, patch, namespace, type=type, subresource=subresource)
            except Forbidden:
                self._only_updates.add((resource, subresource))
        for _ in range(TRIES - 1):
            try:
                return await self._replace(call)
            except Conflict:
                if "resourceVersion" in call.metadata:
                    raise
        return await self._replace(call)

    async def _replace(self, call: _PatchCall) -> Any:
        base = await self._base(call)
        found = {"uid": base.metadata.uid, "resourceVersion": base.metadata.resource_version}
        if any(found[key] != call.metadata[key] for key in found if key in call.metadata):
            raise conflict(call.resource.group, call.resource.plural, call.name)
        # `type` is the name of the parameter that says how to patch, as everywhere
        changed = codec.from_plain(_patched(codec.to_plain(base), call), base.__class__)
        return await self._client.update(changed, call.namespace, subresource=call.subresource)

    async def _base(self, call: _PatchCall) -> Any:
        """Return the state to change.

        It is not read again if the patch requires the version that the caller knows: the server compares versions
        itself, and some accounts may not get the objects that they update.
        """
        if call.cached is not None and call.metadata.get("resourceVersion") == call.cached.metadata.resource_version:
            return call.cached
        return await self._client.get(call.resource, call.name, call.namespace)


def _patched(plain: Any, call: _PatchCall) -> Any:
    metadata = {key: value for key, value in call.metadata.items() if key not in _REQUIREMENTS}
    changes = {key: value for key, value in call.patch.items() if key != "metadata"}
    if metadata:
        changes["metadata"] = metadata
    if call.type == STRATEGIC_PATCH:
        return apply_strategic_merge_patch(plain, changes, call.resource.schema_node)
    return apply_merge_patch(plain, changes)


def map_patch(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """Return the merge patch that turns one map into the other."""
    changed: dict[str, str | None] = {key: value for key, value in after.items() if before.get(key) != value}
    return changed | {key: None for key in before if key not in after}
