"""Objects changed by whoever may: by a patch, or where an account may only update, by replacing what the cache shows.

Upstream's roles let the loops of endpoints update them but not patch them. Only the loop writes these objects, so what
a replacement could lose is little: fields of a newer server that our types don't know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeloop.api import codec
from kubeloop.api.errors import Forbidden
from kubeloop.api.kinds import Resource
from kubeloop.api.patch import apply_merge_patch
from kubeloop.client import Client


class Writer:
    """Changes objects of one kind. Learns from the first refusal that patches are not allowed."""

    def __init__(self, client: Client, resource: Resource) -> None:
        self._client = client
        self._resource = resource
        self._may_patch = True

    async def change(self, obj: Any, patch: dict[str, Any]) -> Any:
        """The object after a merge patch of the very state that is given; `Conflict` if there is a newer one."""
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
    """What a merge patch says to make one map of the other."""
    changed: dict[str, str | None] = {key: value for key, value in after.items() if before.get(key) != value}
    return changed | {key: None for key in before if key not in after}
