# SPDX-License-Identifier: Apache-2.0
"""Protects objects in use by a finalizer, added to new objects and removed from deleted ones when unused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kubeloop.api.kinds import Resource
from kubeloop.client import Client
from kubeloop.runtime.objects.finalizers import ensure_finalizer, remove_finalizer
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate

InUse = Callable[[Any], Awaitable[bool]]


class Protection:
    """Finalizer of one kind."""

    def __init__(self, client: Client, resource: Resource, finalizer: str, in_use: InUse) -> None:
        self._client = PatchOrUpdate(client)
        self._resource = resource
        self._finalizer = finalizer
        self._in_use = in_use

    async def protect(self, obj: Any) -> None:
        """Add the finalizer if it is missing; remove it from a deleted object that is not in use."""
        if needs_finalizer(obj, self._finalizer):
            await ensure_finalizer(self._client, self._resource, obj, self._finalizer)
        elif needs_finalizer_removal(obj, self._finalizer) and not await self._in_use(obj):
            await remove_finalizer(self._client, self._resource, obj, self._finalizer)

    def needs_update(self, _: Any, new: Any) -> bool:
        """Return True if the finalizer of the object must be added or may have to be removed."""
        return new is not None and (
            needs_finalizer(new, self._finalizer) or needs_finalizer_removal(new, self._finalizer)
        )


def needs_finalizer(obj: Any, finalizer: str) -> bool:
    """Return True if the object is not being deleted and has no such finalizer."""
    return obj.metadata.deletion_timestamp is None and finalizer not in obj.metadata.finalizers


def needs_finalizer_removal(obj: Any, finalizer: str) -> bool:
    """Return True if the object is being deleted and still has the finalizer."""
    return obj.metadata.deletion_timestamp is not None and finalizer in obj.metadata.finalizers
