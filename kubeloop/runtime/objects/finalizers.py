# SPDX-License-Identifier: Apache-2.0
"""Adds and removes finalizers by a patch that fails if the object has changed meanwhile."""

from __future__ import annotations

from typing import Any

from kubeloop.api.errors import NotFound
from kubeloop.api.kinds import Resource
from kubeloop.api.requests import MERGE_PATCH
from kubeloop.runtime.objects.patcher import Patcher


async def ensure_finalizer(client: Patcher, resource: Resource, obj: Any, finalizer: str) -> Any:
    """Return the object with the finalizer; without a request if it has it already.

    Raises Conflict if the object has changed: the list is replaced as a whole, and other finalizers must not be lost.
    """
    if finalizer in obj.metadata.finalizers:
        return obj
    return await _replace(client, resource, obj, [*obj.metadata.finalizers, finalizer])


async def remove_finalizer(client: Patcher, resource: Resource, obj: Any, finalizer: str) -> Any:
    """Return the object without the finalizer; None if it is gone, as after its last finalizer."""
    if finalizer not in obj.metadata.finalizers:
        return obj
    try:
        return await _replace(client, resource, obj, [one for one in obj.metadata.finalizers if one != finalizer])
    except NotFound:
        return None


async def _replace(client: Patcher, resource: Resource, obj: Any, finalizers: list[str]) -> Any:
    meta = obj.metadata
    patch = {
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers},
    }
    return await client.patch(resource, meta.name, patch, meta.namespace, type=MERGE_PATCH)
